#pragma once

#include "buoy/message.h"
