// A stand-in: what device code needs of it is built into NVRTC.
#pragma once
