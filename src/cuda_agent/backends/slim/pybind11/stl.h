#pragma once
#include <cuda_agent/module.h>
