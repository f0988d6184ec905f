#include "tests/fuzz/corpus.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "tests/support/places.h"

namespace millrace::test {

std::vector<std::string> Corpus::files() {
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(source_path("tests/fuzz/corpus/") + GetParam().name)) {
    paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> contents;
  for (const auto& path : paths) {
    std::ifstream in(path, std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
  }
  return contents;
}

TEST_P(Corpus, FilesAndTheirDamagedCopiesArePassed) {
  const std::vector<std::string> contents = files();
  EXPECT_GE(contents.size(), GetParam().min_files);
  GetParam().run("");
  uint64_t state = 17;
  const auto below = [&state](uint64_t bound) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 24) % bound;
  };
  for (const std::string& content : contents) {
    GetParam().run(content);
    const int num_copies = std::max<int>(20, static_cast<int>(400 / contents.size()));
    for (int copy = 0; copy < num_copies && !content.empty(); ++copy) {
      std::string damaged = content;
      for (uint64_t i = below(4); i-- > 0;) damaged[below(damaged.size())] = static_cast<char>(below(256));
      if (below(3) == 0) damaged.resize(below(damaged.size()));
      if (below(3) == 0) damaged += contents[below(contents.size())].substr(0, below(200));
      GetParam().run(damaged);
    }
  }
}

}  // namespace millrace::test
