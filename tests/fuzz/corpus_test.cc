// Every fuzz function over the files of its corpus, and over damaged copies of them.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/fuzz/definition_fuzz.h"
#include "tests/fuzz/elements_fuzz.h"
#include "tests/fuzz/example_parser_fuzz.h"
#include "tests/fuzz/frame_table_fuzz.h"
#include "tests/fuzz/inflate_fuzz.h"
#include "tests/fuzz/pipeline_state_fuzz.h"
#include "tests/fuzz/record_reader_fuzz.h"
#include "tests/fuzz/record_splitter_fuzz.h"
#include "tests/fuzz/safetensors_fuzz.h"
#include "tests/fuzz/shard_index_fuzz.h"
#include "tests/fuzz/shard_reader_fuzz.h"
#include "tests/fuzz/zstd_unpacker_fuzz.h"
#ifdef MILLRACE_FUZZ_TOKENIZER
#include "tests/fuzz/tokenizer_fuzz.h"
#endif
#ifdef MILLRACE_FUZZ_TRAINER
#include "tests/fuzz/trainer_fuzz.h"
#endif
#include "tests/support/places.h"

namespace millrace::test::corpus_test {
namespace {

struct Target {
  const char* name;  // of the folder in the corpus
  void (*run)(std::string_view);
  size_t min_files;
};

class Corpus : public ::testing::TestWithParam<Target> {
 protected:
  static std::vector<std::string> files() {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry :
         std::filesystem::directory_iterator(test::source_path("tests/fuzz/corpus/") + GetParam().name)) {
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
};

INSTANTIATE_TEST_SUITE_P(
    , Corpus,
    ::testing::Values(Target{"record_reader", fuzz_record_reader, 3}, Target{"inflater", fuzz_inflater, 2},
                      Target{"seek_points", fuzz_seek_points, 6}, Target{"zstd_unpacker", fuzz_zstd_unpacker, 4},
                      Target{"frame_table", fuzz_frame_table, 2}, Target{"shard_index", fuzz_shard_index, 3},
                      Target{"shard_reader", fuzz_shard_reader, 3}, Target{"damaged_shard", fuzz_damaged_shard, 3},
                      Target{"example_parser", fuzz_example_parser, 3},
                      Target{"pipeline_state", fuzz_pipeline_state, 3}, Target{"line_splitter", fuzz_line_splitter, 2},
                      Target{"fixed_length_splitter", fuzz_fixed_length_splitter, 2}, Target{"csv", fuzz_csv, 3},
                      Target{"elements_block", fuzz_decode_block, 4}, Target{"elements_index", fuzz_elements_index, 2},
                      Target{"definition_text", fuzz_definition_text, 3},
                      Target{"definition_json", fuzz_definition_json, 3}, Target{"safetensors", fuzz_safetensors, 4}),
    [](const auto& target) { return target.param.name; });

#ifdef MILLRACE_FUZZ_TOKENIZER
INSTANTIATE_TEST_SUITE_P(OfTokenizers, Corpus,
                         ::testing::Values(Target{"tokenizer_file", fuzz_tokenizer_file, 7},
                                           Target{"tokenizer_text", fuzz_tokenizer_text, 3}),
                         [](const auto& target) { return target.param.name; });
#endif

#ifdef MILLRACE_FUZZ_TRAINER
INSTANTIATE_TEST_SUITE_P(OfTrainings, Corpus,
                         ::testing::Values(Target{"trainer_config", fuzz_trainer_config, 5},
                                           Target{"trainer_progress", fuzz_trainer_progress, 3}),
                         [](const auto& target) { return target.param.name; });
#endif

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

}  // namespace
}  // namespace millrace::test::corpus_test
