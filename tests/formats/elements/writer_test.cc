#include "millrace/formats/elements/writer.h"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "millrace/formats/columnar/block_builder.h"
#include "millrace/formats/elements/local_folder.h"
#include "millrace/formats/elements/reader.h"
#include "millrace/formats/storage/local.h"
#include "tests/support/forked_child.h"
#include "tests/support/temporary_folder.h"

namespace millrace::elements_writer_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ElementsFolderTest : public ::testing::Test {
 protected:
  static constexpr int64_t kCount = 5000;

  // Numbers from `first` on.
  Block numbers(int64_t first, int64_t count) {
    BlockBuilder builder(schema_, pool_);
    for (int64_t i = first; i < first + count; ++i) {
      builder.column(0).append<int64_t>({&i, 1}, {});
      builder.added_elements(1);
    }
    return builder.finish();
  }
  ElementsWriter writer_of(const std::shared_ptr<ElementsFolder>& folder, uint64_t file_bytes = 1 << 30) const {
    return {folder, schema_, {.written_by = "save", .generation = folder->next_generation()}, file_bytes};
  }
  std::shared_ptr<ElementsFolder> locked() const { return ElementsFolder::lock(folder_.path()); }
  std::shared_ptr<const ElementsIndex> write(int64_t first, uint64_t file_bytes = 10'000, int64_t at_a_time = 700) {
    ElementsWriter writer = writer_of(locked(), file_bytes);
    for (int64_t i = 0; i < kCount; i += at_a_time) writer.append(numbers(first + i, std::min(at_a_time, kCount - i)));
    return writer.commit();
  }
  std::shared_ptr<const ElementsIndex> find() { return ElementsIndex::find(storage_, folder_.path()); }

  // The numbers of one block, or its error.
  std::optional<Error> read(const std::shared_ptr<const ElementsIndex>& index, size_t number,
                            std::vector<int64_t>& values) {
    ElementsReader reader(storage_, pool_, index, nullptr, nullptr, [] {});
    Block block;
    if (reader.read(number, block) == ElementsReader::Step::kError) return reader.error();
    for (const int64_t value : block.column(0).values<int64_t>()) values.push_back(value);
    return std::nullopt;
  }
  std::vector<int64_t> read_all() {
    const auto index = find();
    std::vector<int64_t> values;
    for (size_t i = 0; i < index->num_blocks(); ++i) EXPECT_FALSE(read(index, i, values));
    return values;
  }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, bytes] : test::files_below(folder_.path())) names.push_back(name);
    return names;
  }
  static std::vector<int64_t> from(int64_t first) {
    std::vector<int64_t> values;
    for (int64_t i = 0; i < kCount; ++i) values.push_back(first + i);
    return values;
  }

  const test::TemporaryFolder folder_;
  const SchemaPtr schema_ =
      std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = DType::kInt64, .shape = {}}});
  BufferPool pool_;
  InlineExecutor executor_;
  LocalStorage storage_{executor_};
};

TEST_F(ElementsFolderTest, WhatWasWrittenIsReadInOrder) {
  const auto index = write(100);
  EXPECT_THAT(names(), ElementsAre("description", "elements-1-00000.tfrecord", "elements-1-00001.tfrecord",
                                   "elements-1-00002.tfrecord"));
  EXPECT_EQ(find()->serialize(), index->serialize());
  EXPECT_EQ(index->num_elements(), kCount);
  EXPECT_EQ(index->num_blocks(), 5u);
  EXPECT_EQ(read_all(), from(100));
  for (const int64_t place : {0, 1023, 1024, 4999}) {
    const size_t block = index->block_with(place);
    EXPECT_LE(index->block(block).first_element, place);
    EXPECT_GT(index->block(block).first_element + index->block_places(block), place);
  }
  EXPECT_EQ(index->block_with(kCount), index->num_blocks());
}

TEST_F(ElementsFolderTest, TheBytesDoNotDependOnHowElementsComeInBlocks) {
  write(0, 10'000, 700);
  const auto files = test::files_below(folder_.path());
  std::filesystem::remove_all(folder_.path());
  std::filesystem::create_directory(folder_.path());
  write(0, 10'000, 1);
  EXPECT_TRUE(test::files_below(folder_.path()) == files);
}

TEST_F(ElementsFolderTest, AWriterThatIsGivenUpLeavesWhatWasThere) {
  EXPECT_EQ(find(), nullptr);
  write(0);
  const auto files = test::files_below(folder_.path());
  {
    ElementsWriter writer = writer_of(locked());
    writer.append(numbers(7, 3000));
    EXPECT_EQ(names().size(), files.size() + 1);
  }
  EXPECT_TRUE(test::files_below(folder_.path()) == files);
}

TEST_F(ElementsFolderTest, OtherElementsTakeTheirPlace) {
  write(0);
  write(50, 1 << 30);
  EXPECT_THAT(names(), ElementsAre("description", "elements-2-00000.tfrecord"));
  EXPECT_EQ(read_all(), from(50));
}

TEST_F(ElementsFolderTest, TheDigestIsOfTheElementsAlone) {
  const uint64_t digest = write(0)->content_digest();
  EXPECT_EQ(write(0, 1 << 30)->content_digest(), digest);
  EXPECT_NE(write(1)->content_digest(), digest);
}

TEST_F(ElementsFolderTest, FilesStayAsLongAsTheirIndexIsUsed) {
  write(0);
  auto used = find_local_elements(folder_.path());
  const auto newer = write(50);
  EXPECT_EQ(names().size(), 7u);
  locked()->remove_others(newer.get());
  std::vector<int64_t> values;
  for (size_t i = 0; i < used->num_blocks(); ++i) EXPECT_FALSE(read(used, i, values));
  EXPECT_EQ(values, from(0));
  used = nullptr;
  locked()->remove_others(newer.get());
  EXPECT_EQ(names().size(), 4u);
  EXPECT_EQ(read_all(), from(50));
}

TEST_F(ElementsFolderTest, NoElementsAreElementsToo) {
  ElementsWriter writer = writer_of(locked());
  writer.commit();
  EXPECT_THAT(names(), ElementsAre("description"));
  EXPECT_THAT(read_all(), IsEmpty());
}

TEST_F(ElementsFolderTest, EveryDamagedByteIsFoundWithItsFile) {
  const auto index = write(0);
  const std::string name = "elements-1-00001.tfrecord";
  const std::string good = test::read_file(folder_.path(name));
  // Of the first block in the file: all of its frame, and some of its values.
  const size_t first_block = index->files()[0].blocks;
  const size_t frame = 16 + index->block(first_block).payload_bytes;
  for (size_t at = 0; at < frame; at += (at < 32 || at + 8 > frame) ? 1 : 37) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 4);
    test::write_file(folder_.path(name), bad);
    std::vector<int64_t> values;
    const std::optional<Error> error = read(index, first_block, values);
    ASSERT_TRUE(error) << at;
    EXPECT_EQ(error->shard, folder_.path(name));
    EXPECT_EQ(error->offset, 0);
    EXPECT_THAT(error->message, HasSubstr("elements 2048 to 3071 are lost"));
  }
  test::write_file(folder_.path(name), good.substr(0, good.size() - 1));
  std::vector<int64_t> values;
  EXPECT_EQ(read(index, first_block, values)->code, ErrorCode::kTruncated);
}

TEST_F(ElementsFolderTest, FilesThatWereExchangedAreFound) {
  const auto index = write(0);
  ASSERT_EQ(index->files()[0].bytes, index->files()[1].bytes);
  std::filesystem::rename(folder_.path("elements-1-00000.tfrecord"), folder_.path("other"));
  std::filesystem::rename(folder_.path("elements-1-00001.tfrecord"), folder_.path("elements-1-00000.tfrecord"));
  std::filesystem::rename(folder_.path("other"), folder_.path("elements-1-00001.tfrecord"));
  std::vector<int64_t> values;
  for (size_t block = 0; block < index->files()[1].blocks; ++block) {
    const std::optional<Error> error = read(index, block, values);
    ASSERT_TRUE(error) << block;
    EXPECT_EQ(error->code, ErrorCode::kPayloadCrc);
  }
}

TEST_F(ElementsFolderTest, ADescriptionThatIsDamagedIsRefused) {
  write(0);
  const std::string path = folder_.path("description");
  const std::string good = test::read_file(path);
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    test::write_file(path, bad);
    EXPECT_THROW((void)find(), ErrorException) << at;
  }
  test::write_file(path, good.substr(0, good.size() / 2));
  try {
    (void)find();
    FAIL();
  } catch (const ErrorException& exception) {
    EXPECT_EQ(exception.error().code, ErrorCode::kParse);
    EXPECT_EQ(exception.error().shard, path);
  }
}

TEST_F(ElementsFolderTest, AnElementThatIsAnErrorIsNotWritten) {
  BlockBuilder builder(schema_, pool_);
  builder.append_error(std::make_shared<const Error>(Error{.code = ErrorCode::kParse, .message = "at 0"}));
  ElementsWriter writer = writer_of(locked());
  EXPECT_THROW(writer.append(builder.finish()), ErrorException);
}

TEST_F(ElementsFolderTest, WhatAKilledProcessLeftIsRemoved) {
  test::write_file(folder_.path("elements-7-00000.tfrecord"), "half");
  test::write_file(folder_.path("notes.txt"), "mine");
  const auto index = write(0);
  EXPECT_EQ(index->about().generation, 8u);
  EXPECT_THAT(names(), ElementsAre("description", "elements-8-00000.tfrecord", "elements-8-00001.tfrecord",
                                   "elements-8-00002.tfrecord", "notes.txt"));
}

TEST_F(ElementsFolderTest, ADescriptionOfShapesThatCannotBeIsRefused) {
  const auto parsed = [&](Shape shape) {
    const ElementsIndex index(
        "folder",
        std::make_shared<const Schema>(std::vector<FeatureSpec>{{.name = "x", .dtype = DType::kInt64, .shape = shape}}),
        {.written_by = "save"}, {}, {}, 0, 0);
    return ElementsIndex::parse("folder", index.serialize())->schema()->to_string();
  };
  EXPECT_NO_THROW((void)parsed({kVaries, kRagged}));
  EXPECT_NO_THROW((void)parsed(Shape(32, 1)));
  EXPECT_THROW((void)parsed({kRagged}), ErrorException);
  EXPECT_THROW((void)parsed({kRagged, 2}), ErrorException);
  EXPECT_THROW((void)parsed(Shape(33, 1)), ErrorException);
}

TEST_F(ElementsFolderTest, FilesOfTheUserWithSuchNamesStayWhereTheyAre) {
  const std::vector<std::string> mine{"elements-.tfrecord",
                                      "elements-00001.tfrecord",
                                      "elements-1-.tfrecord",
                                      "elements-1-00000-of-2.tfrecord",
                                      "elements-1-00000.tfrecord.gz",
                                      "elements-a-00000.tfrecord",
                                      "elements-1-2.tfrecord",
                                      "elements-2024-000001.tfrecord",
                                      "elements-007-00000.tfrecord",
                                      "elements-99999999999999999999-00000.tfrecord",
                                      "elements-18446744073709551615-00000.tfrecord",
                                      "elements-train.txt"};
  test::write_file(folder_.path("elements-7-00000.tfrecord"), "half");
  for (const std::string& name : mine) {
    EXPECT_FALSE(is_elements_file_name(name));
    test::write_file(folder_.path(name), "mine");
    try {
      locked()->remove_others(nullptr);
      ADD_FAILURE() << name;
    } catch (const ErrorException& exception) {
      EXPECT_EQ(exception.error().code, ErrorCode::kInvalidArgument);
      EXPECT_THAT(exception.error().message, HasSubstr(name));
    }
    EXPECT_THAT(names(), ::testing::UnorderedElementsAre("elements-7-00000.tfrecord", name));
    std::filesystem::remove(folder_.path(name));
  }
  const auto index = write(0);
  for (const std::string& name : mine) test::write_file(folder_.path(name), "mine");
  locked()->remove_others(index.get());
  EXPECT_EQ(names().size(), mine.size() + 4);
  EXPECT_EQ(locked()->next_generation(), index->about().generation + 1);
}

TEST_F(ElementsFolderTest, AnUnfinishedDescriptionGoesAndAFileOfTheUserStays) {
  const auto index = write(0);
  const size_t num_files = names().size();
  test::write_file(folder_.path("description.tmp-17-3"), "half");
  test::write_file(folder_.path("description.tmp-notes"), "mine");
  locked()->remove_others(index.get());
  EXPECT_THAT(names(), ::testing::Contains("description.tmp-notes"));
  EXPECT_EQ(names().size(), num_files + 1);
}

// Whoever may read a folder and not write it reads it, whatever a killed process left there.
TEST_F(ElementsFolderTest, WhatMayNotBeRemovedKeepsNobodyFromReading) {
  write(0);
  test::write_file(folder_.path("elements-77-00000.tfrecord"), "half");
  test::write_file(folder_.path("elements-78-00000.tfrecord"), "half");
  ::chmod(folder_.path("elements-78-00000.tfrecord").c_str(), 0);
  ::chmod(folder_.path().c_str(), 0555);
  test::ForkedChild child([&] {
    if (::geteuid() == 0 && ::seteuid(65534) != 0) ::_exit(1);
    try {
      const auto found = find_local_elements(folder_.path());
      locked()->remove_others(found.get());
      if (locked()->next_generation() != 79) ::_exit(2);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "%s\n", error.what());
      ::_exit(3);
    }
  });
  EXPECT_TRUE(child.did_it());
  ::chmod(folder_.path().c_str(), 0755);
}

TEST_F(ElementsFolderTest, AnEmptiedOrCutDescriptionIsDamagedAndAnotherFileIsNone) {
  const auto code = [&](const std::string& bytes) {
    try {
      (void)ElementsIndex::parse("folder", bytes);
    } catch (const ErrorException& error) {
      return error.error().code;
    }
    return ErrorCode::kIo;
  };
  const std::string whole = write(0)->serialize();
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) EXPECT_EQ(code(whole.substr(0, bytes)), ErrorCode::kParse);
  EXPECT_EQ(code("mine"), ErrorCode::kInvalidArgument);
}

// A pipe would be waited for for ever.
TEST_F(ElementsFolderTest, APipeInThePlaceOfAFileIsNotWaitedFor) {
  const auto index = write(0);
  const std::string first = index->path(0);
  std::filesystem::remove(first);
  ASSERT_EQ(::mkfifo(first.c_str(), 0600), 0);
  EXPECT_NE(find_local_elements(folder_.path()), nullptr);
}

}  // namespace
}  // namespace millrace::elements_writer_test
