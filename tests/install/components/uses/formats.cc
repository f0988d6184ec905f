#include <stdexcept>

#include "millrace/formats/columnar/schema.h"
#include "millrace/formats/example/parser.h"
#include "millrace/formats/example/writer.h"

void use_formats() {
  millrace::ExampleWriter writer;
  const int64_t ids[] = {1, 2, 3};
  writer.add("ids", ids);
  const millrace::FeatureSpec spec = {.name = "ids"};
  if (writer.finish().find(spec.name) == std::string::npos) throw std::runtime_error("formats");
}
