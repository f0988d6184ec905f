#include "millrace/ops/sources/files.h"

#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "millrace/formats/records/skipped_region.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/temporary_folder.h"

namespace millrace::files_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Files : public ::testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& content) const {
    std::filesystem::create_directories(std::filesystem::path(folder_.path(name)).parent_path());
    test::write_file(folder_.path(name), content);
    return folder_.path(name);
  }
  // Paths without the folder, lengths of the bytes, labels where there are some; what an error says at the end.
  std::vector<std::string> elements(const Dataset& dataset, const StartOptions& options = {.threads = 2}) const {
    std::vector<std::string> all;
    Pipeline pipeline = dataset.start(options);
    try {
      while (const std::optional<Batch> batch = pipeline.next()) {
        const std::string path(batch->values<std::string_view>("path")[0].substr(folder_.path().size() + 1));
        std::string element = path + " " + std::to_string(batch->values<std::string_view>("bytes")[0].size());
        if (dataset.schema().find("label") >= 0) {
          element += " " + std::to_string(batch->values<int64_t>("label")[0]);
        }
        all.push_back(element);
      }
    } catch (const ErrorException& error) {
      all.emplace_back(error.what());
    }
    return all;
  }
  const test::TemporaryFolder folder_;
};

TEST_F(Files, AreElementsInTheOrderOfTheirListWithTheirBytes) {
  std::vector<std::string> paths;
  std::vector<std::string> contents;
  for (int i = 0; i < 50; ++i) {
    // Of no bytes, of several chunks, and of a size that ends with one.
    contents.push_back(std::string(i % 7 == 3 ? 0
                                   : i == 20  ? 600'000
                                   : i == 21  ? 512 << 10
                                              : 10 * i,
                                   'a') +
                       (i % 7 == 3 ? "" : std::to_string(i)));
    paths.push_back(write("file" + std::to_string(i), contents.back()));
  }
  const Dataset dataset = Dataset::files(Shards::files(paths));
  EXPECT_EQ(dataset.schema().to_string(), "bytes bytes [], path bytes []");
  EXPECT_EQ(dataset.cardinality(), Cardinality::known(50));
  for (const int threads : {1, 4}) {
    const WorkerLimit workers(threads);
    Pipeline pipeline = dataset.start({.threads = threads});
    for (size_t i = 0; i < paths.size(); ++i) {
      const std::optional<Batch> batch = pipeline.next();
      ASSERT_TRUE(batch) << i;
      EXPECT_EQ(batch->values<std::string_view>("bytes")[0], contents[i]) << i;
      EXPECT_EQ(batch->values<std::string_view>("path")[0], paths[i]);
    }
    EXPECT_FALSE(pipeline.next());
  }
}

TEST_F(Files, HaveTheNumbersOfTheirFoldersAsLabels) {
  for (const char* name : {"train/rose/2", "train/daisy/1", "train/rose/1", "more/daisy/9", "train/aster/5"}) {
    write(name, name);
  }
  const Shards all = Shards::globs({folder_.path("train/*/*"), folder_.path("more/*/*")});
  EXPECT_THAT(folder_names(all), ElementsAre("aster", "daisy", "rose"));
  EXPECT_THAT(elements(Dataset::files(all, {.label_from_folder = true})),
              ElementsAre("train/aster/5 13 0", "train/daisy/1 13 1", "train/rose/1 12 2", "train/rose/2 12 2",
                          "more/daisy/9 12 1"));
  EXPECT_THAT(folder_names(Shards::files({"plain", "a/b"})), ElementsAre("", "a"));
}

TEST_F(Files, HaveTheLabelsOfTheNamesThatAreGivenWhicheverFilesThereAre) {
  for (const char* name : {"train/rose/1", "train/daisy/1", "train/aster/1", "test/rose/2", "test/daisy/2"}) {
    write(name, name);
  }
  const std::vector<std::string> names{"rose", "aster", "daisy"};
  const auto labelled = [&](const std::string& pattern) {
    return Dataset::files(Shards::glob(folder_.path(pattern)), {.label_from_folder = true, .class_names = names});
  };
  EXPECT_THAT(elements(labelled("train/*/*")),
              ElementsAre("train/aster/1 13 1", "train/daisy/1 13 2", "train/rose/1 12 0"));
  EXPECT_THAT(elements(labelled("test/*/*")), ElementsAre("test/daisy/2 12 2", "test/rose/2 11 0"));
  write("test/tulip/1", "x");
  const auto why = [](const auto& make) -> std::string {
    try {
      (void)make();
    } catch (const ErrorException& error) {
      EXPECT_EQ(error.error().code, ErrorCode::kInvalidArgument);
      return error.what();
    }
    return "accepted";
  };
  EXPECT_THAT(why([&] { return labelled("test/*/*"); }), HasSubstr("folder 'tulip', which class_names lacks"));
  const Shards roses = Shards::glob(folder_.path("train/rose/*"));
  const auto with = [&](const FilesOptions& options) { return why([&] { return Dataset::files(roses, options); }); };
  EXPECT_THAT(with({.label_from_folder = true, .class_names = {"rose", "x", "rose"}}), HasSubstr("has 'rose' twice"));
  EXPECT_THAT(with({.class_names = {"rose"}}), HasSubstr("class_names goes with label_from_folder"));
}

TEST_F(Files, AreShuffledAnewInEachEpoch) {
  std::vector<std::string> paths;
  for (char name = 'a'; name < 'k'; ++name) paths.push_back(write(std::string(1, name), "x"));
  const auto order = [&](uint64_t seed) {
    return elements(Dataset::files(Shards::files(paths), {.shuffle_files = true, .seed = seed}).repeat(2));
  };
  const std::vector<std::string> both = order(1);
  ASSERT_EQ(both.size(), 20);
  const std::vector<std::string> first(both.begin(), both.begin() + 10);
  const std::vector<std::string> second(both.begin() + 10, both.end());
  EXPECT_NE(first, second);
  EXPECT_THAT(first, ::testing::UnorderedElementsAreArray(second));
  EXPECT_NE(order(2), both);
  EXPECT_EQ(order(1), both);
}

TEST_F(Files, ThatAreTooLongAreErrorsOrLeftOut) {
  const Shards files = Shards::files({write("a", "12345"), write("b", std::string(400'000, 'x')), write("c", "1")});
  EXPECT_THAT(elements(Dataset::files(files, {.max_file_bytes = 5})),
              ElementsAre("a 5", HasSubstr("record_too_large: the file has 400000 bytes, more than 5")));
  EXPECT_THAT(elements(Dataset::files(files, {.max_file_bytes = 5, .damage = {.action = DamagePolicy::kSkip}})),
              ElementsAre("a 5", "c 1"));
  EXPECT_EQ(Dataset::files(files, {.damage = {.action = DamagePolicy::kSkip}}).cardinality(), Cardinality::unknown());
}

TEST_F(Files, ThatAreNotThereAreErrors) {
  const Shards files = Shards::files({write("a", "1"), folder_.path("nothing")});
  EXPECT_THAT(elements(Dataset::files(files)), ElementsAre("a 1", HasSubstr(folder_.path("nothing"))));
}

TEST_F(Files, GoOnFromEveryState) {
  std::vector<std::string> paths;
  for (int i = 0; i < 40; ++i) paths.push_back(write(std::to_string(i), std::string(static_cast<size_t>(i), 'x')));
  const Dataset dataset = Dataset::files(Shards::files(paths), {.shuffle_files = true});
  const std::vector<std::string> all = elements(dataset);
  Pipeline pipeline = dataset.start({.threads = 1});
  for (size_t taken = 0; taken <= all.size(); ++taken) {
    StartOptions options{.threads = 2};
    options.state = pipeline.save();
    EXPECT_EQ(elements(dataset, options),
              std::vector<std::string>(all.begin() + static_cast<std::ptrdiff_t>(taken), all.end()))
        << taken;
    if (taken < all.size()) {
      ASSERT_TRUE(pipeline.next());
    }
  }
}

}  // namespace
}  // namespace millrace::files_test
