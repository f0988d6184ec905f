#pragma once

#include <string_view>

namespace millrace::test {

/// See fuzz_record_splitter.
void fuzz_line_splitter(std::string_view bytes);

/// See fuzz_record_splitter.
void fuzz_fixed_length_splitter(std::string_view bytes);

/// See fuzz_record_splitter; splits the records too, which stays within them.
void fuzz_csv(std::string_view bytes);

}  // namespace millrace::test
