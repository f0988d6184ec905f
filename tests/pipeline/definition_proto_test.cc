// pipeline_def.proto is what the descriptions of the options make. To make it anew:
//
//     MILLRACE_WRITE=1 build/dev/tests/pipeline_tests --gtest_filter='DefinitionProto.*'

#include <cstdlib>

#include <gtest/gtest.h>

#include "millrace/formats/storage/whole_file.h"
#include "millrace/pipeline/definition/method_list.h"
#include "tests/pipeline/proto_text.h"
#include "tests/support/places.h"
#include "tests/support/temporary_folder.h"

namespace millrace::definition_proto_test {
namespace {

template <typename... Of, auto... kCalled>
std::string proto_of(definition::MethodList<definition::Method<Of, kCalled>...>) {
  ProtoText proto;
  (proto.add_step<Of>(), ...);
  return proto.text();
}

TEST(DefinitionProto, IsWhatTheDescriptionsMake) {
  const std::string path = test::source_path("pipeline/definition/pipeline_def.proto");
  const std::string made = proto_of(definition::Methods());
  if (std::getenv("MILLRACE_WRITE") != nullptr) test::write_file(path, made);
  EXPECT_TRUE(read_whole_file(path) == made) << "another one; it is made anew by MILLRACE_WRITE=1 pipeline_tests "
                                                "--gtest_filter='DefinitionProto.*', then build again";
}

}  // namespace
}  // namespace millrace::definition_proto_test
