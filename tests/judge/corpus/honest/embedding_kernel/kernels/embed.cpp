#include <algorithm>
#include <cstdint>

extern "C" void embed(const int64_t* tokens, const bool* mask, const float* table, float* out, int64_t rows,
                      int64_t length, int64_t width) {
    for (int64_t r = 0; r < rows; ++r) {
        float* to = out + r * width;
        std::fill(to, to + width, 0.0f);
        int64_t kept = 0;
        for (int64_t t = r * length; t < (r + 1) * length; ++t)
            if (mask[t]) {
                ++kept;
                for (int64_t d = 0; d < width; ++d) to[d] += table[tokens[t] * width + d];
            }
        for (int64_t d = 0; d < width; ++d) to[d] /= static_cast<float>(std::max<int64_t>(kept, 1));
    }
}
