// The body of gemm_eigen*.cc, each compiled for another instruction set. The name of Eigen's namespace differs in each,
// because the linker keeps only one copy of an inline function, and it must not be one that needs AVX-512.
#define EIGEN_DONT_PARALLELIZE
#define EIGEN_NO_DEBUG
#define Eigen MILLRACE_EIGEN_NAMESPACE
#include <Eigen/Core>

#include "millrace/trainer/tensor/gemm_eigen.h"

namespace millrace {
namespace {

template <typename T>
void product(const GemmArguments<T>& x) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Input = Eigen::Map<const Matrix, Eigen::Unaligned, Eigen::OuterStride<>>;
  const Input a(x.a, x.transposed_a ? x.k : x.m, x.transposed_a ? x.m : x.k, Eigen::OuterStride<>(x.lda));
  const Input b(x.b, x.transposed_b ? x.n : x.k, x.transposed_b ? x.k : x.n, Eigen::OuterStride<>(x.ldb));
  Eigen::Map<Matrix, Eigen::Unaligned, Eigen::OuterStride<>> c(x.c, x.m, x.n, Eigen::OuterStride<>(x.ldc));
  if (x.beta == 0) {
    c.setZero();
  } else if (x.beta != 1) {
    c *= x.beta;
  }
  if (x.transposed_a && x.transposed_b) {
    c.noalias() += x.alpha * a.transpose() * b.transpose();
  } else if (x.transposed_a) {
    c.noalias() += x.alpha * a.transpose() * b;
  } else if (x.transposed_b) {
    c.noalias() += x.alpha * a * b.transpose();
  } else {
    c.noalias() += x.alpha * a * b;
  }
}

}  // namespace

void MILLRACE_GEMM_NAME(const GemmArguments<float>& arguments) { product(arguments); }
void MILLRACE_GEMM_NAME(const GemmArguments<double>& arguments) { product(arguments); }

}  // namespace millrace
