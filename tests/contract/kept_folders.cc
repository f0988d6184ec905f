#include "tests/contract/kept_folders.h"

#include <map>

#include <fmt/format.h>

#include "millrace/pipeline/dataset.h"
#include "tests/support/temporary_folder.h"

namespace millrace::test {

std::string new_folder() {
  static const TemporaryFolder folder;
  static int64_t folders = 0;
  return folder.path(fmt::format("kept-{}", folders++));
}

std::string folder_of_numbers(int64_t count) {
  static std::map<int64_t, std::string> folders;
  std::string& folder = folders[count];
  if (folder.empty()) {
    folder = new_folder();
    Dataset::range(0, count).save(folder, {.start = {.threads = 1}});
  }
  return folder;
}

}  // namespace millrace::test
