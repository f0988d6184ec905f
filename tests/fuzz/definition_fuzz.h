#pragma once

#include <string_view>

namespace millrace::test {

/// Reads any bytes as the definition of a pipeline in protobuf's text form: refused as `kInvalidArgument`, or written
/// in both forms and read again as it was. What builds a dataset without looking at files is the definition of that
/// dataset, and builds it again.
void fuzz_definition_text(std::string_view bytes);

/// The same in the JSON form.
void fuzz_definition_json(std::string_view bytes);

}  // namespace millrace::test
