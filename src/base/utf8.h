#pragma once

#include "buoy/utf8.h"
