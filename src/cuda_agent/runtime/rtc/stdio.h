// A stand-in: printf is built into NVRTC.
#pragma once
