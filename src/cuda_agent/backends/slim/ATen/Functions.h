// All operators are those that the source names.
#pragma once
#include <cuda_agent/generated.h>
