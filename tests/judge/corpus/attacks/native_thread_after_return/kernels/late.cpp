#include <chrono>
#include <cstdint>
#include <thread>

static void work(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r)
        for (int64_t c = 0; c < columns; ++c) {
            float v = x[r * columns + c] * w[c] + b[c];
            out[r * columns + c] = v > 0.0f ? v : 0.0f;
        }
}

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns,
                            int late) {
    if (!late) return work(x, w, b, out, rows, columns);
    std::thread([=] {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        work(x, w, b, out, rows, columns);
    }).detach();
}
