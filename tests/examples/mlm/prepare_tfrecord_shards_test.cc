// prepare_tfrecord_shards as a process: what it prints, interrupted, killed, on a full disk.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "examples/mlm/shard_statistics.h"
#include "millrace/formats/storage/local.h"
#include "tests/examples/mlm/preparation_text.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/shard_driver.h"

namespace millrace::prepare_tfrecord_shards_test {
namespace {

namespace fs = std::filesystem;
using test::ChildOptions;
using test::ChildProcess;
using test::ChildResult;
using test::files_below;
using test::numbered_rows;
using test::run_child;
using test::TemporaryFolder;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::MatchesRegex;
using ::testing::StartsWith;
using Files = std::map<std::string, std::string>;

constexpr const char* kIncomplete = ".incomplete-shards";

// Every shard of a folder is whole: its records can be read to the end, and there are as many as its name says.
void expect_whole_shards(const std::string& folder) {
  static const std::regex kName(R"(dataset-[0-9]+-([0-9]+)\.tfrecord)");
  BufferPool pool;
  InlineExecutor executor;
  LocalStorage storage(executor);
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(".tfrecord")) continue;
    std::smatch match;
    ASSERT_TRUE(std::regex_match(name, match, kName)) << entry.path();
    const test::ReadShard shard = test::read_shard(storage, pool, entry.path().string(), {}, /*stop_at_error=*/true);
    EXPECT_THAT(shard.faults, IsEmpty()) << entry.path();
    EXPECT_EQ(std::to_string(shard.records.size()), match[1]) << entry.path();
  }
}

// The files that are in their place.
Files set_in(const std::string& folder) {
  Files files;
  for (const auto& [name, bytes] : files_below(folder)) {
    if (!name.starts_with(kIncomplete)) files[name] = bytes;
  }
  return files;
}

bool is_part_of(const Files& part, const Files& whole) {
  for (const auto& [name, bytes] : part) {
    const auto found = whole.find(name);
    if (found == whole.end() || found->second != bytes) return false;
  }
  return true;
}

class PrepareShards : public ::testing::Test {
 protected:
  PrepareShards() {
    std::ofstream(path("tokenizer.json")) << test::letter_tokenizer_json();
    write_text("text.txt", 46);
    write_text("other.txt", 31);
  }

  std::string path(const std::string& name) const { return folder_.path(name); }

  void write_text(const std::string& name, int num_rows) const {
    std::ofstream out(path(name));
    for (const std::string& row : numbered_rows(num_rows)) out << row << "\n";
  }

  // Groups of 2 lines in records of 8 tokens, 100 in a file.
  std::vector<std::string> command(const std::string& text, const std::string& out,
                                   const char* program = test::kPrepareShards) const {
    return {
        program,        "--tokenizer", path("tokenizer.json"), "--text", path(text),  "--out", path(out),
        "--max-length", "8",           "--rows-per-group",     "2",      "--threads", "2",     "--records-per-shard",
        "100"};
  }

  ChildResult prepare(const std::string& text, const std::string& out, const std::string& fault = "") const {
    if (fault.empty()) return run_child(command(text, out));
    return run_child(command(text, out, test::kPrepareShardsWithFaults),
                     {.environment = {"MILLRACE_FILE_FAULT=" + fault}});
  }

  Files undisturbed(const std::string& text) const {
    const TemporaryFolder folder;
    std::vector<std::string> arguments = command(text, "");
    arguments[6] = folder.path("out");
    const ChildResult result = run_child(arguments);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return files_below(folder.path("out"));
  }

  // The one line on standard error of a run that fails.
  std::string error_of(const std::vector<std::string>& arguments) const {
    std::vector<std::string> all = {test::kPrepareShards};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ChildResult result = run_child(all);
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, MatchesRegex("prepare_tfrecord_shards: [^\n]+\n"));
    return result.err;
  }

  const TemporaryFolder folder_;
};

constexpr int kMostCalls = 500;

// What a test waits for in vain after so long.
constexpr auto kLimit = std::chrono::minutes(2);

TEST_F(PrepareShards, FilesAreTheSameForAnyNumberOfThreads) {
  const Files expected = undisturbed("text.txt");
  for (const char* threads : {"1", "4", "8", "0"}) {
    std::vector<std::string> arguments = command("text.txt", std::string("out-") + threads);
    arguments[12] = threads;
    ASSERT_EQ(arguments[11], "--threads");
    ASSERT_EQ(run_child(arguments).exit_code, 0);
    EXPECT_EQ(files_below(path(std::string("out-") + threads)), expected) << threads;
  }
  EXPECT_GE(expected.size(), 3U + 3U);
}

TEST_F(PrepareShards, FilesAreWhatTheyWereWhenThisWasWritten) {
  std::string all;
  for (const auto& [name, bytes] : undisturbed("text.txt")) all += name + "\n" + bytes;
  const size_t digest = all.find("  \"tokenizer_digest\"");  // which was not there
  ASSERT_NE(digest, std::string::npos);
  all.erase(digest, all.find('\n', digest) + 1 - digest);
  EXPECT_EQ(fmt::format("{:016x}", XXH3_64bits(all.data(), all.size())), "f9dbe15b8e9ee99e")
      << "shards that others have would differ";
}

TEST_F(PrepareShards, ZstdShardsHoldTheSameRecords) {
  const Files plain = undisturbed("text.txt");
  std::vector<std::string> arguments = command("text.txt", "out-zstd");
  arguments.insert(arguments.end(), {"--compression", "zstd"});
  ASSERT_EQ(run_child(arguments).exit_code, 0);
  InlineExecutor executor;
  LocalStorage storage(executor);
  BufferPool pool;
  size_t num_shards = 0;
  for (const auto& [name, bytes] : plain) {
    const bool is_shard = name.ends_with(".tfrecord");
    num_shards += is_shard ? 1 : 0;
    const std::string stored = path("out-zstd/" + name + (is_shard ? ".zst" : ""));
    if (!is_shard) {
      EXPECT_EQ(test::read_file(stored), bytes) << name;
      continue;
    }
    test::write_file(path("plain"), bytes);
    const test::ReadShard expected = test::read_shard(storage, pool, path("plain"), {}, true);
    EXPECT_EQ(test::read_shard(storage, pool, stored, {.compression = Compression::kZstd}, true).records,
              expected.records)
        << name;
  }
  EXPECT_GE(num_shards, 2U);
}

TEST_F(PrepareShards, KilledAtAnyFileCallItLeavesWholeShardsOfOneSetAndTheNextRunMakesItGood) {
  ASSERT_EQ(prepare("other.txt", "before").exit_code, 0);
  const Files old_set = files_below(path("before"));
  const Files new_set = undisturbed("text.txt");
  int kills = 0;
  std::map<std::string, int> seen;
  for (;; ++kills) {
    ASSERT_LT(kills, kMostCalls);
    SCOPED_TRACE(fmt::format("call {}", kills + 1));
    fs::remove_all(path("out"));
    fs::copy(path("before"), path("out"), fs::copy_options::recursive);
    const ChildResult result = prepare("text.txt", "out", fmt::format("kill={}", kills + 1));
    if (result.exit_code == 0) break;
    ASSERT_EQ(result.signal, SIGKILL) << result.err;
    expect_whole_shards(path("out"));
    const Files found = set_in(path("out"));
    if (found.empty()) {
      ++seen["nothing in place"];
    } else if (found == old_set) {
      ++seen["the old set"];
    } else if (found == new_set) {
      ++seen["the new set"];
    } else {
      ++seen["a part of one set"];
      EXPECT_NE(is_part_of(found, old_set), is_part_of(found, new_set)) << "a mixture";
      EXPECT_EQ(found.count("statistics.json"), 0U) << "a part that says it is the whole";
    }
    ASSERT_EQ(prepare("text.txt", "out").exit_code, 0);
    EXPECT_EQ(files_below(path("out")), new_set) << "with nothing left over";
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(files_below(path("out")), new_set) << "the run that was not killed";
  // Each shard is created, written, synced, renamed; then three more files; then the old set goes and the new one
  // comes.
  EXPECT_GE(seen["the old set"], 4 * static_cast<int>(new_set.size()));
  EXPECT_GE(seen["a part of one set"], 7);
  EXPECT_GE(seen["nothing in place"], 1);
  EXPECT_GE(seen["the new set"], 3) << "while the old one is removed";
}

TEST_F(PrepareShards, KilledWhileShardsAppearItLeavesWholeOnes) {
  const Files expected = undisturbed("text.txt");
  for (const int num_shards : {1, 3, 8}) {
    // Text through a pipe: the program cannot end before it is killed.
    fs::remove(path("pipe"));
    ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
    ChildProcess child(command("pipe", "out"));
    const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    ASSERT_GE(pipe, 0);
    const std::string shards = path(std::string("out/") + kIncomplete + "/train/dataset-*.tfrecord");
    const auto limit = std::chrono::steady_clock::now() + kLimit;
    while (child.running() && static_cast<int>(glob_local(shards).size()) < num_shards &&
           std::chrono::steady_clock::now() < limit) {
      for (const std::string& row : numbered_rows(20)) {
        const ssize_t written = ::write(pipe, (row + "\n").data(), row.size() + 1);
        ASSERT_TRUE(written == static_cast<ssize_t>(row.size() + 1) || errno == EAGAIN);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    ASSERT_TRUE(child.running());
    child.signal(SIGKILL);
    EXPECT_EQ(child.wait().signal, SIGKILL);
    ::close(pipe);
    EXPECT_GE(static_cast<int>(glob_local(shards).size()), num_shards);
    expect_whole_shards(path("out"));
    EXPECT_THAT(set_in(path("out")), IsEmpty());
    ASSERT_EQ(prepare("text.txt", "out").exit_code, 0);
    EXPECT_EQ(files_below(path("out")), expected);
    fs::remove_all(path("out"));
  }
}

TEST_F(PrepareShards, FullDiskIsOneLineThatNamesTheFileAndTheOldSetStays) {
  const Files new_set = undisturbed("text.txt");
  ASSERT_EQ(prepare("other.txt", "out").exit_code, 0);
  const Files before = files_below(path("out"));
  int failures = 0;
  for (;; ++failures) {
    ASSERT_LT(failures, kMostCalls);
    SCOPED_TRACE(fmt::format("call {}", failures + 1));
    const ChildResult result = prepare("text.txt", "out", fmt::format("full={}", failures + 1));
    if (result.exit_code == 0) break;
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, MatchesRegex("prepare_tfrecord_shards: io: [^\n]+: No space left on device \\(file " +
                                         path("out") + "/[^\n]+\\)\n"));
    EXPECT_EQ(files_below(path("out")), before);
    ASSERT_FALSE(HasFailure());
  }
  EXPECT_EQ(files_below(path("out")), new_set) << "the run that had room";
  EXPECT_GE(failures, 2 * static_cast<int>(new_set.size())) << "creating and writing of each file";
}

TEST_F(PrepareShards, ASignalEndsItWhileItWaitsForAnInputThatNobodyWrites) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  // Opening the other end waits until the program has come to its own; then it waits for bytes, for ever.
  const auto ended = [&](const std::vector<std::string>& arguments) {
    ChildProcess child(arguments);
    const int pipe = ::open(path("pipe").c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_GE(pipe, 0);
    child.signal(SIGTERM);
    const ChildResult result = child.wait();
    ::close(pipe);
    return result;
  };
  std::vector<std::string> with_tokenizer = command("text.txt", "out");
  with_tokenizer[2] = path("pipe");
  EXPECT_EQ(ended(with_tokenizer).signal, SIGTERM);
  const ChildResult with_text = ended(command("pipe", "out"));
  // Where it had not come to remember the signal, it has ended by it.
  EXPECT_TRUE(with_text.exit_code == 128 + SIGTERM || with_text.signal == SIGTERM) << with_text.err;
  if (fs::exists(path("out"))) {
    EXPECT_THAT(set_in(path("out")), IsEmpty());
  }
}

TEST_F(PrepareShards, InterruptedItLeavesTheFolderAsItWas) {
  ASSERT_EQ(prepare("other.txt", "out").exit_code, 0);
  const Files before = files_below(path("out"));
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  ChildProcess child(command("pipe", "out"));
  const int pipe = ::open(path("pipe").c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  ASSERT_GE(pipe, 0);
  for (const std::string& row : numbered_rows(100)) ASSERT_GT(::write(pipe, (row + "\n").data(), row.size() + 1), 0);
  const std::string shard = path(std::string("out/") + kIncomplete + "/train/dataset-0-100.tfrecord");
  auto limit = std::chrono::steady_clock::now() + kLimit;
  while (!fs::exists(shard) && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ASSERT_TRUE(fs::exists(shard));
  child.signal(SIGINT);
  limit = std::chrono::steady_clock::now() + kLimit;
  // It waits for text, and hears of the signal when it has a group. The text must not end before: the signal is
  // handled at some time by some thread. Where it reads no more the pipe may be full.
  while (child.running() && std::chrono::steady_clock::now() < limit) {
    const ssize_t written = ::write(pipe, "a group\nof 2 rows\n", 18);
    ASSERT_TRUE(written == 18 || errno == EAGAIN);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  ::close(pipe);
  const ChildResult result = child.wait();
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, MatchesRegex("prepare_tfrecord_shards: interrupted[^\n]*\n"));
  EXPECT_EQ(files_below(path("out")), before);
}

TEST_F(PrepareShards, ReportSaysWhatTheStatisticsSay) {
  std::vector<std::string> arguments = command("text.txt", "out");
  const ChildResult text = run_child(arguments);
  const ShardStatistics statistics = find_shard_statistics(path("out")).value();
  EXPECT_THAT(text.out,
              AllOf(HasSubstr(fmt::format("{} records of 8 tokens", statistics.train.records)),
                    HasSubstr(fmt::format("{} records of 8 tokens", statistics.validation.records)),
                    HasSubstr(fmt::format("unigram entropy {:.4f} nats", statistics.unigram_entropy.value()))));
  EXPECT_EQ(text.err, "") << "progress is for terminals";
  arguments.emplace_back("--json");
  const ChildResult json = run_child(arguments);
  EXPECT_EQ(std::count(json.out.begin(), json.out.end(), '\n'), 1);
  const auto object = nlohmann::json::parse(json.out);
  EXPECT_EQ(object.at("train").at("records"), statistics.train.records);
  EXPECT_EQ(object.at("validation").at("ordinary_tokens"), statistics.validation.ordinary_tokens);
  EXPECT_EQ(object.at("unigram_entropy"), statistics.unigram_entropy.value());
  EXPECT_EQ(object.at("vocabulary_size"), 32);
  EXPECT_EQ(object.at("threads"), 2);
  EXPECT_EQ(object.at("out"), path("out"));
}

TEST_F(PrepareShards, ReportThatCannotBeWrittenIsAnError) {
  std::string shell;
  for (const std::string& argument : command("text.txt", "out")) shell += "'" + argument + "' ";
  const ChildResult result = run_child({"/bin/sh", "-c", shell + "> /dev/full"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_EQ(result.err, "prepare_tfrecord_shards: cannot write to standard output\n");
}

TEST_F(PrepareShards, TextTooShortForValidationSaysWhatHelps) {
  std::vector<std::string> arguments = {
      test::kPrepareShards, "--tokenizer", path("tokenizer.json"), "--out", path("out"), "--max-length", "8", "--text",
      path("text.txt")};
  EXPECT_THAT(run_child(arguments).out,
              HasSubstr("no validation records: the text is too short for groups of 1000 lines; "
                        "a smaller --rows-per-group gives some\n"));
}

TEST_F(PrepareShards, HelpNamesEveryOptionWithItsDefault) {
  const ChildResult result = run_child({test::kPrepareShards, "--help"});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_THAT(result.out, StartsWith("Turns text into TFRecord shards"));
  for (const char* option :
       {"--tokenizer arg", "--out arg", "--text arg", "--invalid-utf8 arg (=refuse)", "--max-length 1..16777216 (=128)",
        "--rows-per-group 1..1000000000 (=1000)", "--validation-every 2..1000000000000 (=20)",
        "--records-per-shard 1..1000000000000 (=1000)", "--compression arg (=none)", "--threads 0..1024 (=0)",
        "--json"}) {
    EXPECT_THAT(result.out, HasSubstr(option));
  }
}

TEST_F(PrepareShards, WrongInputIsOneLineThatSaysWhatAndWhere) {
  const std::string tokenizer = path("tokenizer.json");
  const std::string text = path("text.txt");
  const std::string out = path("out");
  EXPECT_THAT(error_of({}), HasSubstr("--tokenizer is missing"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer}), HasSubstr("--out is missing"));
  EXPECT_THAT(error_of({"--tokeniser", tokenizer}), HasSubstr("'--tokeniser'"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--max-length", "0"}),
              HasSubstr("--max-length is 0; 1 to 16777216 are possible"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--max-length", "many"}), HasSubstr("many"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--validation-every", "1"}),
              HasSubstr("--validation-every is 1; 2 to 1000000000000 are possible"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--threads", "5000"}), HasSubstr("5000"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--compression", "rar"}),
              HasSubstr("--compression is 'rar', must be none, zlib, gzip or zstd"));
  EXPECT_THAT(error_of({"--tokenizer", path("no.json"), "--out", out, "--text", text}), HasSubstr(path("no.json")));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--text", text, path("no.txt")}),
              HasSubstr(path("no.txt")));
  std::ofstream(path("empty.txt")) << "";
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--text", path("empty.txt")}),
              HasSubstr("the text has no line"));
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--text", text, "--max-length", "1000000"}),
              HasSubstr("no record to train on"));
  std::ofstream(path("latin1.txt")) << "good\nna\xefve\n";
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", out, "--text", path("latin1.txt")}),
              AllOf(HasSubstr(path("latin1.txt")), HasSubstr("byte 7")));
  EXPECT_FALSE(fs::exists(out)) << "none of them leaves a folder";
  EXPECT_THAT(error_of({"--tokenizer", tokenizer, "--out", text, "--text", text}), HasSubstr(text));
  EXPECT_EQ(run_child({test::kPrepareShards, "--tokenizer", tokenizer, "--out", out, "--text", path("latin1.txt"),
                       "--invalid-utf8", "replace", "--max-length", "4"})
                .exit_code,
            0);
}

}  // namespace
}  // namespace millrace::prepare_tfrecord_shards_test
