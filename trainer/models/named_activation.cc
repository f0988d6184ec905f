#include "millrace/trainer/models/named_activation.h"

#include <fmt/format.h>

#include "millrace/formats/error.h"

namespace millrace {

Activation activation_named(const char* field, const std::string& name) {
  if (name == "relu") return Activation::kRelu;
  if (name == "gelu") return Activation::kGelu;
  if (name == "gelu_new" || name == "gelu_pytorch_tanh") return Activation::kGeluTanh;
  if (name == "silu" || name == "swish") return Activation::kSilu;
  throw ErrorException(
      ErrorCode::kInvalidArgument,
      fmt::format(
          "{}: there is no activation '{:.60}'; relu, gelu, gelu_new, gelu_pytorch_tanh, silu and swish are known",
          field, name));
}

const char* name_of(Activation activation) {
  switch (activation) {
    case Activation::kRelu: return "relu";
    case Activation::kGelu: return "gelu";
    case Activation::kGeluTanh: return "gelu_new";
    case Activation::kSilu: return "silu";
  }
  return "";
}

}  // namespace millrace
