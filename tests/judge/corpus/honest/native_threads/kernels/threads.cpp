#include <cstdint>
#include <thread>
#include <vector>

extern "C" void affine_relu(const float* x, const float* w, const float* b, float* out, int64_t rows, int64_t columns) {
    std::vector<std::thread> threads;
    for (int64_t part = 0; part < 2; ++part)
        threads.emplace_back([=] {
            for (int64_t r = part * rows / 2; r < (part + 1) * rows / 2; ++r)
                for (int64_t c = 0; c < columns; ++c) {
                    float v = x[r * columns + c] * w[c] + b[c];
                    out[r * columns + c] = v > 0.0f || v != v ? v : 0.0f;
                }
        });
    for (std::thread& thread : threads) thread.join();
}
