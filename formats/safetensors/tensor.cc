#include "millrace/formats/safetensors/tensor.h"

namespace millrace {

std::string_view to_string(TensorType type) {
  switch (type) {
    case TensorType::kF32: return "F32";
    case TensorType::kF64: return "F64";
    case TensorType::kI32: return "I32";
    case TensorType::kI64: return "I64";
    case TensorType::kU8: return "U8";
    case TensorType::kF16: return "F16";
    case TensorType::kBF16: return "BF16";
  }
  return "unknown";
}

size_t size_of(TensorType type) {
  switch (type) {
    case TensorType::kF32:
    case TensorType::kI32: return 4;
    case TensorType::kF64:
    case TensorType::kI64: return 8;
    case TensorType::kF16:
    case TensorType::kBF16: return 2;
    case TensorType::kU8: return 1;
  }
  return 0;
}

}  // namespace millrace
