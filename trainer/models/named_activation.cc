#include "trainer/models/named_activation.h"

#include <fmt/format.h>

#include "formats/error.h"

namespace millrace {

Activation activation_named(const char* field, const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: there is no activation '{}'; relu, gelu, gelu_new and gelu_pytorch_tanh are known", field,
                  name));
}

}  // namespace millrace
