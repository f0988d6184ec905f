// Writes what tests/bitwise.sh feeds to two builds: write_workload_shards FOLDER makes
// FOLDER/{mlm,mlm_gz,quest,tokens,images} with shards for the workloads of dataset_bench, and
// FOLDER/{tokenizer.json,text.txt} for the programs of examples/mlm.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/benchmarks/workload_shards.h"
#include "tests/examples/mlm/preparation_text.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: write_workload_shards FOLDER\n");
    return 2;
  }
  try {
    namespace test = millrace::test;
    const std::filesystem::path folder = argv[1];
    const auto made = [&](const char* name) {
      std::filesystem::create_directories(folder / name);
      return (folder / name).string();
    };
    test::write_workload_shards(made("mlm"), test::mlm_record);
    test::write_workload_shards(made("mlm_gz"), test::mlm_record, millrace::Compression::kGzip);
    test::write_workload_shards(made("quest"), test::quest_record);
    test::write_workload_shards(made("tokens"), test::tokens_record);
    test::write_workload_shards(made("images"), test::images_record, millrace::Compression::kNone, 30);
    std::ofstream(folder / "tokenizer.json") << test::letter_tokenizer_json();
    std::ofstream text(folder / "text.txt");
    for (const std::string& row : test::numbered_rows(3000)) text << row << "\n";
    text.close();
    return text.fail() ? 1 : 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_workload_shards: %s\n", error.what());
    return 1;
  }
}
