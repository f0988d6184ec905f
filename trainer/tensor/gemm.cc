#include "millrace/trainer/tensor/gemm.h"

#include "millrace/trainer/tensor/gemm_eigen.h"
#ifdef MILLRACE_HAVE_ONEDNN
#include "millrace/trainer/tensor/gemm_onednn.h"
#endif

namespace millrace {
namespace {

enum class Level { kBaseline, kAvx2, kAvx512 };

Level level() {
#ifdef __x86_64__
  static const Level found = [] {
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl")) {
      return Level::kAvx512;
    }
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? Level::kAvx2 : Level::kBaseline;
  }();
  return found;
#else
  return Level::kBaseline;
#endif
}

template <typename T>
void eigen(const GemmArguments<T>& arguments) {
#ifdef __x86_64__
  if (level() == Level::kAvx512) return gemm_eigen_avx512(arguments);
  if (level() == Level::kAvx2) return gemm_eigen_avx2(arguments);
#endif
  gemm_eigen(arguments);
}

void multiply(const GemmArguments<double>& arguments) { eigen(arguments); }

void multiply(const GemmArguments<float>& arguments) {
#ifdef MILLRACE_HAVE_ONEDNN
  gemm_onednn(arguments);
#else
  eigen(arguments);
#endif
}

}  // namespace

template <typename T>
void gemm(Transposed transposed_a, Transposed transposed_b, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
          int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        T& value = c[row * ldc + column];
        value = beta == 0 ? 0 : beta * value;
      }
    }
    return;
  }
  multiply(GemmArguments<T>{.transposed_a = transposed_a == Transposed::kYes,
                            .transposed_b = transposed_b == Transposed::kYes,
                            .m = m,
                            .n = n,
                            .k = k,
                            .alpha = alpha,
                            .a = a,
                            .lda = lda,
                            .b = b,
                            .ldb = ldb,
                            .beta = beta,
                            .c = c,
                            .ldc = ldc});
}

template void gemm(Transposed, Transposed, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*,
                   int64_t, float, float*, int64_t);
template void gemm(Transposed, Transposed, int64_t, int64_t, int64_t, double, const double*, int64_t, const double*,
                   int64_t, double, double*, int64_t);

std::string_view gemm_backend() {
#ifdef MILLRACE_HAVE_ONEDNN
  return "oneDNN";
#else
  switch (level()) {
    case Level::kAvx512: return "Eigen (AVX-512)";
    case Level::kAvx2: return "Eigen (AVX2)";
    case Level::kBaseline: break;
  }
  return "Eigen";
#endif
}

}  // namespace millrace
