extern "C" void loop(const float* x, float* out) {
    for (volatile unsigned long n = 0;; n = n + 1) out[0] = x[0] + static_cast<float>(n);
}
