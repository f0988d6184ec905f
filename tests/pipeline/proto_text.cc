#include "tests/pipeline/proto_text.h"

namespace millrace::definition_proto_test {

std::string ProtoText::camel_case(std::string_view name) {
  std::string camel;
  bool begins = true;
  for (const char c : name) {
    if (c != '_') camel += begins && c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    begins = c == '_';
  }
  return camel;
}

std::string ProtoText::text() const {
  std::string text =
      R"(// A pipeline as data: see pipeline_def.h and docs/pipeline_definitions.md. Made of the descriptions of the options
// (ops/description.h), not to be edited: `pipeline_tests --gtest_filter='DefinitionProto.*'` says how it is made anew.
// One message for each method of Dataset, with its parameters and options by their names. An option that is left out
// has the default of the C++ struct, and a parameter must be there. Numbers of fields are of one version of Millrace:
// definitions are kept as text or JSON.
syntax = "proto3";
package millrace.def;

// The text form of `tfrecord(…).shuffle(…).batch(…)`:
//
//     version: 1
//     steps { tfrecord { shards { files: "data/train-0.tfrecord" } cycle_length: 16 } }
//     steps { shuffle { buffer_size: 65536 seed: 42 } }
//     steps { batch { size: 128 drop_remainder: true } }
message PipelineDef {
  optional uint32 version = 1;
  repeated Step steps = 2;
}

message Steps {
  repeated Step steps = 1;
}

// One operator. Its input is the step before; operators of several inputs have them here instead.
message Step {
  repeated Steps inputs = 1;
  oneof operator {
)";
  int number = 1;
  for (const std::string& step : steps_) text += fmt::format("    {} = {};\n", step, ++number);
  return text + "  }\n}\n" + messages_;
}

}  // namespace millrace::definition_proto_test
