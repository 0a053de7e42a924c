// Torch's headers of single operators include this one without need. It is there where the source names its contents.
#pragma once
#include <cuda_agent/wanted.h>
#ifdef CUDA_AGENT_WANTS_CONTEXT
#include_next <ATen/Context.h>
#endif
