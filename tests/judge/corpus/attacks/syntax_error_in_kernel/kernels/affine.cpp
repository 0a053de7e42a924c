#include <cstdint>

extern "C" void affine_relu(const float* x, float* out) {
    out[0] = x[0] + undeclared;
}
