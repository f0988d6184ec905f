#include <stdexcept>

#include "millrace/trainer/optimizers/adam.h"

void use_trainer() {
  millrace::ParameterLayout layout;
  layout.add("weight", {10, 4});
  layout.finish(1 << 20);
  const millrace::Adam adam(layout, {.weight_decay = 0.1});
  if (adam.describe().empty()) throw std::runtime_error("trainer");
}
