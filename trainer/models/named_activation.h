#pragma once

#include <string>

#include "millrace/trainer/tensor/feed_forward.h"

namespace millrace {

/// The activation that a config of Hugging Face transformers calls `name`: `relu`, `gelu`, `gelu_new` or, the same
/// function, `gelu_pytorch_tanh`, `silu` or its other name `swish`. Throws `kInvalidArgument` naming `field`, in which
/// it stands, and those that are known.
Activation activation_named(const char* field, const std::string& name);

/// The first of its names above.
const char* name_of(Activation activation);

}  // namespace millrace
