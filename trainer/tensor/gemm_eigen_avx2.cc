#define MILLRACE_EIGEN_NAMESPACE EigenOf_gemm_eigen_avx2
#define MILLRACE_GEMM_NAME gemm_eigen_avx2
#include "millrace/trainer/tensor/gemm_eigen-inl.h"
