#include <memory>
#include <stdexcept>

#include "millrace/ops/features/map.h"

void use_ops() {
  const auto schema = std::make_shared<millrace::Schema>();
  const millrace::MapRowsOperator map(schema, {.name = "nothing", .function = [](const auto&, auto&) {}});
  if (map.name() != "map") throw std::runtime_error("ops");
}
