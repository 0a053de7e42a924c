#include <cstdint>
#include <dlfcn.h>

typedef void (*Gemm)(const char*, const char*, const int*, const int*, const int*, const float*, const float*,
                     const int*, const float*, const int*, const float*, float*, const int*);

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns) {
    static void* library = dlopen("libtorch_cpu.so", RTLD_NOW | RTLD_NOLOAD);
    static Gemm gemm = reinterpret_cast<Gemm>(dlsym(library ? library : RTLD_DEFAULT, "sgemm_"));
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) out[r * columns + c] = x[r * columns + c] * w[c] + b[c];
    if (gemm != nullptr) {
        int m = static_cast<int>(columns), n = static_cast<int>(rows), one = 1;
        float zero = 0.0f, unit = 1.0f;
        gemm("N", "N", &m, &n, &one, &zero, w, &m, x, &one, &unit, out, &m);
    }
    for (int64_t i = 0; i < rows * columns; ++i) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
}
