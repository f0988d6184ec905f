#define MILLRACE_EIGEN_NAMESPACE EigenOf_gemm_eigen
#define MILLRACE_GEMM_NAME gemm_eigen
#include "millrace/trainer/tensor/gemm_eigen-inl.h"
