// A stand-in for NVRTC.
#pragma once
#ifndef NULL
#define NULL 0
#endif
