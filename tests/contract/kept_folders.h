#pragma once

#include <cstdint>
#include <string>

namespace millrace::test {

// Folders for elements that pipelines keep; removed when the process ends.

// One that nobody has used.
[[nodiscard]] std::string new_folder();
// One with the numbers below `count`, saved.
[[nodiscard]] std::string folder_of_numbers(int64_t count);

}  // namespace millrace::test
