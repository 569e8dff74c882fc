#pragma once

#include "buoy/parse.h"
