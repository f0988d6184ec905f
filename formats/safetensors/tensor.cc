#include "formats/safetensors/tensor.h"

namespace millrace {

std::string_view to_string(TensorType type) {
  switch (type) {
    case TensorType::kF32: return "F32";
    case TensorType::kF64: return "F64";
    case TensorType::kI32: return "I32";
    case TensorType::kI64: return "I64";
  }
  return "unknown";
}

size_t size_of(TensorType type) { return type == TensorType::kF32 || type == TensorType::kI32 ? 4 : 8; }

}  // namespace millrace
