// Reads a directory of TFRecord files, good and broken ones, through a pipeline: see kUsage.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>

#include "tests/pipeline/pipeline_fixtures.h"
#include "tests/support/temporary_folder.h"

namespace {

constexpr const char* kUsage =
    "usage: tfrecord_test --dir PATH [--threads N]\n"
    "Reads the files that PATH/manifest.json and PATH/corrupt/manifest.json list (tests/data/tfrecord/README.md)\n"
    "through a pipeline. Good files: exactly their records, with the compression declared and by content. Each file\n"
    "with a planted fault: its records up to the fault and one error that names shard, offset and record; and where\n"
    "damage is left out, only intact records, with all that is lost in the list. What is wrong with a file is found "
    "in\n"
    "its bytes, whatever its name; what the manifest calls intact must be there. Prints a line for each that fails, "
    "then\n"
    "'N passed, M failed'. Exit status: 0 when all pass, 1 when some fail, 2 when nothing can be run.\n"
    "  --dir PATH    such a directory\n"
    "  --threads N   of the pipelines. Default: 2\n"
    "  --help        this text\n";

int print(const millrace::test::FixtureReport& report, int& passed) {
  passed += report.num_passed;
  for (const std::string& failure : report.failures) std::printf("%s\n", failure.c_str());
  return static_cast<int>(report.failures.size());
}

}  // namespace

int main(int argc, char** argv) {
  using namespace millrace;
  using namespace millrace::test;
  std::string folder;
  std::string threads = "2";
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    if (option == "--help") {
      std::fputs(kUsage, stdout);
      return 0;
    }
    std::string* value = option == "--dir" ? &folder : option == "--threads" ? &threads : nullptr;
    if (value == nullptr || i + 1 == argc) {
      std::fprintf(stderr, "tfrecord_test: %s '%s'\n%s", value == nullptr ? "unknown option" : "no value for", argv[i],
                   kUsage);
      return 2;
    }
    *value = argv[++i];
  }
  if (folder.empty()) {
    std::fprintf(stderr, "tfrecord_test: --dir is needed\n%s", kUsage);
    return 2;
  }
  try {
    const StartOptions options{.threads = std::stoi(threads)};
    const TemporaryFolder links;
    const ReadFixture read = through_pipeline(links.path(), options);
    int passed = 0;
    int failed = print(check_intact_fixtures(read, folder), passed);
    failed += print(check_corrupt_fixtures(read, folder), passed);
    failed += print(check_listed_faults(folder, options), passed);
    std::printf("%d passed, %d failed\n", passed, failed);
    return failed == 0 && passed > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "tfrecord_test: %s\n", error.what());
    return 2;
  }
}
