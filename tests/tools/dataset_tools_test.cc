// dataset_index and dataset_verify as processes.
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/base64.h"
#include "millrace/formats/storage/local.h"
#include "millrace/formats/tfrecord/index/index.h"
#include "millrace/formats/tfrecord/writer.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/process_locale.h"
#include "tests/support/temporary_folder.h"

namespace millrace::dataset_tools_test {
namespace {

using nlohmann::ordered_json;
using test::ChildResult;
using test::read_file;
using test::run_child;
using test::write_file;
using ::testing::HasSubstr;
using ::testing::Not;

class DatasetTools : public ::testing::Test {
 protected:
  DatasetTools() {
    write("a-3.tfrecord", 3, Compression::kNone);
    write("b-2000.tfrecord", 2000, Compression::kGzip);
    write("c-500.tfrecord", 500, Compression::kZlib);
  }

  void write(const std::string& name, int count, Compression compression) {
    RecordWriter writer(folder_.path(name), {.compression = compression});
    for (int i = 0; i < count; ++i) writer.write(name + std::to_string(i) + std::string(i % 300, 'x'));
    writer.close();
  }
  ChildResult index(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::kDatasetIndex);
    return run_child(arguments);
  }
  ChildResult verify(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), test::kDatasetVerify);
    return run_child(arguments);
  }
  ordered_json verified(std::vector<std::string> arguments, int exit_code) const {
    arguments.push_back("--json");
    const ChildResult result = verify(arguments);
    EXPECT_EQ(result.exit_code, exit_code) << result.out << result.err;
    return ordered_json::parse(result.out);
  }
  void flip(const std::string& name, size_t byte) const {
    std::string bytes = read_file(folder_.path(name));
    bytes.at(byte) ^= 0x10;
    write_file(folder_.path(name), bytes);
  }

  const test::TemporaryFolder folder_;
  const std::string all_ = folder_.path("*.tfrecord");
};

TEST_F(DatasetTools, NamesMayBeAnyBytesAndReachNoTerminalRaw) {
  const std::string name = "d\x1b[31m\n\xff.tfrecord";
  write(name, 5, Compression::kNone);
  for (const char* program : {test::kDatasetIndex, test::kDatasetVerify}) {
    const ChildResult text = run_child({program, folder_.path(name)});
    EXPECT_EQ(text.exit_code, 0) << text.err;
    EXPECT_THAT(text.out, HasSubstr("d\\x1b[31m\\n\\xff.tfrecord"));
    EXPECT_THAT(text.out + text.err, Not(HasSubstr("\x1b[31m")));
    const ChildResult result = run_child({program, folder_.path(name), "--json"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const ordered_json shard = ordered_json::parse(result.out).at("shards").at(0);
    EXPECT_EQ(shard.at("shard"), folder_.path("d\x1b[31m\n\xef\xbf\xbd.tfrecord"));
    EXPECT_EQ(decode_base64(shard.at("shard_base64").get<std::string>()), folder_.path(name));
  }
  write("plain.tfrecord", 1, Compression::kNone);
  EXPECT_FALSE(verified({folder_.path("plain.tfrecord")}, 0).at("shards").at(0).contains("shard_base64"));
}

TEST_F(DatasetTools, IndexesAreWrittenBesideTheShardsAndThenLeftAsTheyAre) {
  const ChildResult first = index({all_, "--threads", "3"});
  EXPECT_EQ(first.exit_code, 0) << first.err;
  EXPECT_EQ(first.err, "");
  EXPECT_THAT(first.out, HasSubstr("3 shards: 3 written, 0 up to date, 0 failed; 2,503 records"));
  InlineExecutor executor;
  LocalStorage storage(executor);
  const auto loaded = load_shard_index(storage, folder_.path("b-2000.tfrecord"));
  ASSERT_NE(loaded, nullptr);
  EXPECT_EQ(loaded->num_records(), 2000U);
  EXPECT_EQ(loaded->compression(), Compression::kGzip);
  EXPECT_EQ(test::files_below(folder_.path()).size(), 6U);  // and nothing temporary

  // A glob that matches indexes too leaves them out.
  const auto before = std::filesystem::last_write_time(folder_.path("b-2000.tfrecord.index"));
  const ChildResult second = index({folder_.path("*")});
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_THAT(second.out, HasSubstr("3 shards: 0 written, 3 up to date, 0 failed; 2,503 records"));
  EXPECT_EQ(std::filesystem::last_write_time(folder_.path("b-2000.tfrecord.index")), before);

  const ChildResult forced = index({all_, "--force"});
  EXPECT_THAT(forced.out, HasSubstr("3 written, 0 up to date"));
}

// Times of files are compared with nothing, and no program needs a home, a folder for temporary files or a language.
TEST_F(DatasetTools, NoVerdictDependsOnTimesOfFilesOrTheEnvironment) {
  EXPECT_EQ(index({all_}).exit_code, 0);
  const ordered_json expected = verified({all_}, 0);
  const auto now = std::filesystem::file_time_type::clock::now();
  const auto day = std::chrono::hours(24);
  for (const auto& [name, bytes] : test::files_below(folder_.path())) {
    std::filesystem::last_write_time(folder_.path(name), now + (name.ends_with(".index") ? -day : 400 * day));
  }
  const test::ProcessLocale german("de_DE");
  std::vector<std::string> of_a_german = german.environment();
  of_a_german.emplace_back("TMPDIR=/no/such/folder");
  const std::vector<std::vector<std::string>> environments = {{}, of_a_german, {"LC_ALL=no_SUCH"}};
  for (std::vector<std::string> command : environments) {
    command.insert(command.begin(), {"/usr/bin/env", "--ignore-environment"});
    const size_t at = command.size();
    command.insert(command.end(), {test::kDatasetIndex, all_});
    const ChildResult indexed = run_child(command);
    EXPECT_EQ(indexed.exit_code, 0) << indexed.err;
    EXPECT_THAT(indexed.out, HasSubstr("3 shards: 0 written, 3 up to date, 0 failed; 2,503 records"));
    command[at] = test::kDatasetVerify;
    command.emplace_back("--json");
    EXPECT_EQ(ordered_json::parse(run_child(command).out), expected);
  }
}

TEST_F(DatasetTools, OfManyShardsOnlyThoseWithDamageAreListed) {
  for (int i = 0; i < 120; ++i) write(fmt::format("many-{:03}.tfrecord", i), 1, Compression::kNone);
  const std::string many = folder_.path("many-*.tfrecord");
  const ChildResult good = verify({many});
  EXPECT_EQ(good.exit_code, 0);
  EXPECT_EQ(good.out.substr(0, good.out.find(':')), "120 shards");
  const ChildResult indexed = index({many});
  EXPECT_EQ(indexed.out.substr(0, indexed.out.find(':')), "120 shards");

  flip("many-007.tfrecord", 20);
  const ChildResult damaged = verify({many});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_THAT(damaged.out, HasSubstr("\n" + folder_.path("many-007.tfrecord") + "  "));
  EXPECT_THAT(damaged.out, Not(HasSubstr("many-008")));
  EXPECT_THAT(damaged.out, HasSubstr("120 shards: "));
  EXPECT_EQ(verified({many}, 1).at("shards").size(), 120U);
  flip("many-007.tfrecord", 3);
  const ChildResult failed = index({many, "--force"});
  EXPECT_THAT(failed.out, HasSubstr("many-007"));
  EXPECT_THAT(failed.out, Not(HasSubstr("many-008")));
}

TEST_F(DatasetTools, FoldersAmongTheShardsAreRefusedAndOnesInThePlaceOfAnIndexAreNone) {
  std::filesystem::create_directories(folder_.path("b-2000.tfrecord.index"));
  const ChildResult none = verify({all_});
  EXPECT_EQ(none.exit_code, 0) << none.err;
  for (const ChildResult& result : {verify({folder_.path("*")}), index({folder_.path("*")})}) {
    EXPECT_EQ(result.exit_code, 1) << result.out;
    EXPECT_THAT(result.err, HasSubstr("matches folders: '" + folder_.path("b-2000.tfrecord.index") + "'."));
    EXPECT_THAT(result.err, HasSubstr("The files in them are '" + folder_.path("*/*") + "'"));
  }
}

TEST_F(DatasetTools, StaleAndBrokenIndexesAreWrittenAnew) {
  EXPECT_EQ(index({all_}).exit_code, 0);
  write("a-3.tfrecord", 4, Compression::kNone);
  flip("c-500.tfrecord.index", 200);
  const ChildResult result = index({all_, "--json"});
  EXPECT_EQ(result.exit_code, 0);
  const ordered_json json = ordered_json::parse(result.out);
  EXPECT_EQ(json.at("written"), 2);
  EXPECT_EQ(json.at("up_to_date"), 1);
  EXPECT_EQ(json.at("shards").at(0).at("index"), "written");
  EXPECT_EQ(json.at("shards").at(0).at("records"), 4);
  EXPECT_EQ(json.at("shards").at(1).at("index"), "up to date");
  EXPECT_EQ(json.at("shards").at(2).at("index"), "written");
  EXPECT_EQ(verify({all_}).exit_code, 0);
}

TEST_F(DatasetTools, DamagedAndMissingShardsGetNoIndexAndTheOthersDo) {
  flip("a-3.tfrecord", 15);
  const ChildResult result = index({all_, folder_.path("none.tfrecord")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("dataset_index: payload_crc: "));
  EXPECT_THAT(result.err, HasSubstr("a-3.tfrecord, offset 0, record 0"));
  EXPECT_THAT(result.err, HasSubstr("none.tfrecord"));
  EXPECT_THAT(result.out, HasSubstr("4 shards: 2 written, 0 up to date, 2 failed"));
  EXPECT_FALSE(std::filesystem::exists(folder_.path("a-3.tfrecord.index")));
  EXPECT_TRUE(std::filesystem::exists(folder_.path("b-2000.tfrecord.index")));
}

TEST_F(DatasetTools, GoodShardsVerifyWithAndWithoutIndexes) {
  const ChildResult without = verify({all_});
  EXPECT_EQ(without.exit_code, 0);
  EXPECT_THAT(without.out, HasSubstr("3 shards: 2,503 records, "));
  EXPECT_THAT(without.out, HasSubstr("; no damage\n"));
  EXPECT_EQ(index({all_}).exit_code, 0);
  const ordered_json json = verified({all_, "--threads", "1"}, 0);
  EXPECT_EQ(json.at("good"), true);
  EXPECT_EQ(json.at("records"), 2503);
  EXPECT_EQ(json.at("shards").at(1).at("compression"), "GZIP");
  EXPECT_EQ(json.at("shards").at(1).at("index"), "fits");
  EXPECT_EQ(verified({all_, "--no-index"}, 0).at("shards").at(1).at("index"), "none");
}

TEST_F(DatasetTools, DamageIsListedWithWhatIsLostAndTheExitCodeSaysSo) {
  EXPECT_EQ(index({all_}).exit_code, 0);
  const size_t length_of_second = 12 + 13 + 4;  // after the frame of "a-3.tfrecord0"
  flip("a-3.tfrecord", length_of_second + 2);
  const ordered_json json = verified({all_}, 1);
  EXPECT_EQ(json.at("good"), false);
  EXPECT_EQ(json.at("records"), 2502);
  EXPECT_EQ(json.at("records_lost"), 1);
  EXPECT_EQ(json.at("damaged_shards"), 1);
  const ordered_json& damage = json.at("shards").at(0).at("damage");
  ASSERT_EQ(damage.size(), 1U);
  EXPECT_EQ(damage.at(0).at("code"), "length_crc");
  EXPECT_EQ(damage.at(0).at("record"), 1);
  EXPECT_EQ(damage.at(0).at("begin"), length_of_second);
  EXPECT_EQ(damage.at(0).at("end"), length_of_second + 16 + 14);
  EXPECT_EQ(damage.at(0).at("records_lost"), 1);
  // So short a shard is all within the index's digest.
  EXPECT_EQ(json.at("shards").at(0).at("index"), "differs");
  EXPECT_THAT(json.at("shards").at(0).at("index_problem").get<std::string>(), HasSubstr("first 4 KiB"));

  const ChildResult text = verify({all_, "--no-index"});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("1 place: 61 bytes lost, records not known"));
  EXPECT_THAT(text.out, HasSubstr("length_crc: the record's length"));
  EXPECT_THAT(text.out, HasSubstr("offset 29, record 1)"));
  EXPECT_THAT(text.out, HasSubstr("1 shard damaged: 61 bytes lost, records not known\n"));
}

TEST_F(DatasetTools, DamagedGzipLosesWhatItMustAndOtherShardsNothing) {
  EXPECT_EQ(index({all_}).exit_code, 0);
  const size_t size = read_file(folder_.path("b-2000.tfrecord")).size();
  flip("b-2000.tfrecord", size / 2);
  const ordered_json json = verified({all_}, 1);
  const ordered_json& shard = json.at("shards").at(1);
  EXPECT_GE(shard.at("damage").size(), 1U);
  uint64_t lost = 0;
  for (const ordered_json& one : shard.at("damage")) lost += one.at("records_lost").get<uint64_t>();
  EXPECT_EQ(shard.at("records").get<uint64_t>() + lost, 2000U);
  EXPECT_GT(lost, 0U);
  EXPECT_EQ(json.at("shards").at(0).at("damage").size() + json.at("shards").at(2).at("damage").size(), 0U);
}

TEST_F(DatasetTools, ForeignAndBrokenIndexesAreProblemsThatNameWhatDiffers) {
  EXPECT_EQ(index({all_}).exit_code, 0);
  write_file(folder_.path("a-3.tfrecord.index"), read_file(folder_.path("c-500.tfrecord.index")));
  flip("b-2000.tfrecord.index", 100);
  const ChildResult result = verify({all_});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("it was made of 'c-500.tfrecord', the file is 'a-3.tfrecord'"));
  EXPECT_THAT(result.out, HasSubstr("index: the index is broken: "));
  EXPECT_THAT(result.out, HasSubstr("2,503 records"));
  EXPECT_THAT(result.out, HasSubstr("no damage; 2 indexes not fitting\n"));
}

TEST_F(DatasetTools, AnIndexThatIsNoneTakesNoMemoryAndEndsNoOtherShard) {
  ASSERT_EQ(index({folder_.path("*.tfrecord")}).exit_code, 0);
  const std::string path = folder_.path("a-3.tfrecord.index");
  const std::string good = read_file(path);
  const auto expect_problem = [&](const std::string& text) {
    const ordered_json found = verified({folder_.path("*.tfrecord"), "--threads=1"}, 1);
    EXPECT_EQ(found["index_problems"], 1);
    EXPECT_EQ(found["damaged_places"], 0);
    EXPECT_EQ(found["records"], 2503);
    EXPECT_THAT(std::string(found["shards"][0]["index_problem"]), HasSubstr(text));
    const ChildResult table = verify({folder_.path("*.tfrecord")});
    EXPECT_EQ(table.exit_code, 1);
    EXPECT_THAT(table.out, HasSubstr(path));
    // Anew, as any that is broken.
    EXPECT_EQ(index({folder_.path("*.tfrecord")}).exit_code, 0);
    EXPECT_EQ(read_file(path), good);
  };
  std::filesystem::resize_file(path, uint64_t{1} << 40);
  expect_problem("1099511627776 bytes are too many for an index");
  // Without a shard's size its file is as long as its numbers say: 2^61 records would be.
  std::string forged = good;
  forged[40 + 7] = '\x20';
  write_file(path, forged);
  expect_problem("bytes are too few for what it is to hold");
  write_file(path, good + "x");
  expect_problem("it has 1 bytes too many");
}

TEST_F(DatasetTools, AStaleIndexOfTheSameSizeIsFoundByItsRecords) {
  // More than 4 KiB at both ends stay as they were; two records between change places.
  const std::string path = folder_.path("d.tfrecord");
  const auto write_with = [&](int first, int second) {
    RecordWriter writer(path);
    for (int i = 0; i < 300; ++i)
      writer.write(std::string(100, static_cast<char>(i == 150 ? first : i == 151 ? second : 'a')));
    writer.close();
  };
  write_with('x', 'y');
  EXPECT_EQ(index({path}).exit_code, 0);
  write_with('y', 'x');
  const ChildResult result = verify({path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("the CRC of record 150 ends in"));
  EXPECT_THAT(result.out, HasSubstr("300 records"));
  EXPECT_THAT(result.out, HasSubstr("no damage"));
}

TEST_F(DatasetTools, AStaleIndexOfACompressedShardOfTheSameSizeIsNoDamage) {
  const std::string path = folder_.path("d.tfrecord");
  const auto write_with = [&](char letter) {
    RecordWriter writer(path, {.compression = Compression::kGzip, .level = 0});
    for (int i = 0; i < 300; ++i) writer.write(std::string(100, letter));
    writer.close();
  };
  write_with('x');
  EXPECT_EQ(index({path}).exit_code, 0);
  write_with('y');
  const ChildResult result = verify({path});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("the first 4 KiB of the file are others; the last 4 KiB of the file are others"));
  EXPECT_THAT(result.out, HasSubstr("1 shard: 300 records, 34,800 bytes; no damage; 1 index not fitting"));
}

TEST_F(DatasetTools, CountsOfFileNamesAreCheckedWhereAsked) {
  EXPECT_EQ(verify({all_, "--counts-from", "*-{count}.tfrecord"}).exit_code, 0);
  write("e-7.tfrecord", 6, Compression::kNone);
  EXPECT_EQ(verify({all_}).exit_code, 0);
  const ChildResult result = verify({all_, "--counts-from", "*-{count}.tfrecord"});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("cardinality: 7 records were promised, 6 are there"));
  EXPECT_THAT(result.out, HasSubstr("1 place: nothing lost"));
}

TEST_F(DatasetTools, ZstdShardsAreIndexedAndVerified) {
  const std::string name = "d-3000.tfrecord.zst";
  {
    RecordWriter writer(folder_.path(name), {.compression = Compression::kZstd, .frame_bytes = 20000});
    for (int i = 0; i < 3000; ++i) writer.write(std::to_string(i * 7919) + std::string(i % 300, 'x'));
    writer.close();
  }
  const std::string path = folder_.path(name);
  for (const bool indexed : {false, true}) {
    if (indexed) {
      const ChildResult result = index({path, "--json"});
      EXPECT_EQ(result.exit_code, 0) << result.err;
      const ordered_json shard = ordered_json::parse(result.out).at("shards").at(0);
      EXPECT_EQ(shard.at("compression"), "ZSTD");
      EXPECT_EQ(shard.at("records"), 3000);
      EXPECT_GT(shard.at("seek_points"), 20);
      EXPECT_LT(shard.at("index_bytes"), 15000);
    }
    ordered_json found = verified({path}, 0);
    EXPECT_EQ(found.at("good"), true);
    EXPECT_EQ(found.at("records"), 3000);
    EXPECT_EQ(found.at("shards").at(0).at("compression"), "ZSTD");
    const std::string good = read_file(path);
    // A frame, and the seek table.
    flip(name, good.size() / 2);
    found = verified({path, "--compression", "zstd"}, 1);
    EXPECT_EQ(found.at("damaged_places"), 1);
    EXPECT_EQ(found.at("records_lost_known"), true);
    EXPECT_EQ(found.at("records").get<int>() + found.at("records_lost").get<int>(), 3000);
    EXPECT_LE(found.at("bytes_lost"), 20000);
    write_file(path, good);
    flip(name, good.size() - 15);
    found = verified({path}, 1);
    EXPECT_EQ(found.at("records"), 3000);
    EXPECT_EQ(found.at("damaged_places"), 0);
    EXPECT_THAT(found.at("shards").at(0).at("index_problem").dump(),
                HasSubstr(indexed ? "the last 4 KiB of the file are others" : "the seek table is broken"));
    write_file(path, good);
  }
  flip(name, std::filesystem::file_size(path) - 15);
  const ChildResult broken = index({path, "--force"});
  EXPECT_EQ(broken.exit_code, 1);
  EXPECT_THAT(broken.err, HasSubstr("index: the seek table is broken"));
}

TEST_F(DatasetTools, MissingShardsAreErrors) {
  const ChildResult result = verify({folder_.path("none.tfrecord")});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("io: cannot open"));
  const ChildResult glob = verify({folder_.path("none-*")});
  EXPECT_EQ(glob.exit_code, 1);
  EXPECT_THAT(glob.err, HasSubstr("dataset_verify: invalid_argument: no file matches"));
}

TEST_F(DatasetTools, WrongArgumentsAreNamed) {
  EXPECT_THAT(index({}).err, HasSubstr("SHARDS is missing"));
  EXPECT_THAT(index({all_, "--threads", "-1"}).err, HasSubstr("--threads is -1; 0 to 1024 are possible"));
  EXPECT_THAT(index({all_, "--compression", "lz4"}).err,
              HasSubstr("--compression is 'lz4', must be none, zlib, gzip or zstd"));
  EXPECT_THAT(verify({all_, "--max-record-bytes", "0"}).err, HasSubstr("--max-record-bytes is 0"));
  EXPECT_EQ(verify({all_, "--unknown"}).exit_code, 1);
  EXPECT_THAT(index({"--help"}).out, HasSubstr("usage: dataset_index SHARDS... [options]"));
  const ChildResult declared = verify({all_, "--compression", "gzip"});
  EXPECT_EQ(declared.exit_code, 1);
  EXPECT_THAT(declared.out, HasSubstr("declared GZIP, the content is an uncompressed TFRecord file"));
}

TEST_F(DatasetTools, AFullDiskLeavesNoHalfIndex) {
  const ChildResult result =
      run_child({test::kDatasetIndex, folder_.path("b-2000.tfrecord")}, {.most_file_bytes = 1000});
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.err, HasSubstr("b-2000.tfrecord.index"));
  EXPECT_EQ(test::files_below(folder_.path()).size(), 3U);
}

}  // namespace
}  // namespace millrace::dataset_tools_test
