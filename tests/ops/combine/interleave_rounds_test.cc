#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "millrace/formats/tfrecord/writer.h"
#include "millrace/pipeline/dataset.h"
#include "millrace/pipeline/worker_limit.h"
#include "tests/support/sanitized.h"
#include "tests/support/temporary_folder.h"

namespace millrace::interleave_rounds_test {
namespace {

/// Shards long enough that whole rounds through them are taken at once.
class InterleaveRounds : public testing::Test {
 protected:
  InterleaveRounds() {
    for (size_t s = 0; s < sizes_.size(); ++s) {
      RecordWriter writer(paths_.emplace_back(folder_.path(fmt::format("{}.tfrecord", s))));
      for (size_t r = 0; r < sizes_[s]; ++r) writer.write(record(s, r));
      writer.close();
    }
  }
  static std::string record(size_t shard, size_t r) {
    return fmt::format("{}:{}{}", shard, r, std::string(r % 50, '.'));
  }

  // Changes the payload of a record, whose CRC is then wrong.
  void damage(size_t shard, size_t r) const {
    size_t offset = 12;
    for (size_t before = 0; before < r; ++before) offset += record(shard, before).size() + 16;
    std::string bytes = test::read_file(paths_[shard]);
    bytes[offset] = '?';
    test::write_file(paths_[shard], bytes);
  }

  // tf.data's order, record by record.
  std::vector<std::string> expected(size_t cycle_length, size_t block_length) const {
    struct Open {
      size_t shard, next;
    };
    std::vector<std::optional<Open>> cycle(cycle_length);
    std::vector<std::string> stream;
    size_t opened = 0;
    for (size_t turn = 0, empty = 0; empty < cycle_length; turn = (turn + 1) % cycle_length) {
      std::optional<Open>& input = cycle[turn];
      if (!input && opened < sizes_.size()) input = Open{opened++, 0};
      empty = input ? 0 : empty + 1;
      for (size_t i = 0; i < block_length && input; ++i) {
        if (input->next == sizes_[input->shard]) {
          input.reset();
        } else {
          stream.push_back(record(input->shard, input->next));
          ++input->next;
        }
      }
    }
    return stream;
  }

  static std::vector<std::string> rest_of(Pipeline& pipeline, size_t most = SIZE_MAX) {
    std::vector<std::string> stream;
    try {
      while (stream.size() < most) {
        const std::optional<Batch> batch = pipeline.next();
        if (!batch) break;
        stream.emplace_back(batch->values<std::string_view>("record")[0]);
      }
    } catch (const PipelineError& error) {
      stream.emplace_back(error.what());
    }
    return stream;
  }

  Dataset records(size_t cycle_length, size_t block_length) const {
    return Dataset::tfrecord(Shards::files(paths_), {.cycle_length = cycle_length, .block_length = block_length});
  }

  const std::vector<size_t> sizes_ = {1300, 400, 2501, 1, 1650, 900, 0, 1200};
  const test::TemporaryFolder folder_;
  std::vector<std::string> paths_;
};

TEST_F(InterleaveRounds, TheOrderIsThatOfTurns) {
  const WorkerLimit limit(4);
  for (const size_t cycle_length : {1, 2, 3, 8, 16}) {
    for (const size_t block_length : {1, 2, 7, 300}) {
      SCOPED_TRACE(fmt::format("cycle_length {}, block_length {}", cycle_length, block_length));
      for (const int threads : {1, 3}) {
        Pipeline pipeline = records(cycle_length, block_length).start({.threads = threads});
        ASSERT_EQ(rest_of(pipeline), expected(cycle_length, block_length));
      }
    }
  }
}

TEST_F(InterleaveRounds, GoOnFromAnyPlace) {
  const WorkerLimit limit(4);
  const std::vector<std::string> stream = expected(3, 2);
  const Dataset dataset = records(3, 2);
  Pipeline pipeline = dataset.start({.threads = 2});
  constexpr size_t kStep = 97 * test::kStride;
  for (size_t place = 0; place < stream.size(); place += kStep) {
    Pipeline resumed = dataset.start({.threads = 2, .state = PipelineState::parse(pipeline.save().serialize())});
    ASSERT_EQ(rest_of(resumed),
              std::vector<std::string>(stream.begin() + static_cast<std::ptrdiff_t>(place), stream.end()));
    rest_of(pipeline, kStep);
  }
}

TEST_F(InterleaveRounds, ErrorsStayInTheirPlacesAndKnowThem) {
  const WorkerLimit limit(4);
  std::vector<std::string> stream = expected(3, 1);
  const std::string bad = record(2, 777);
  damage(2, 777);
  Pipeline pipeline = records(3, 1).start({.threads = 2});
  const std::vector<std::string> found = rest_of(pipeline);
  ASSERT_FALSE(found.empty());
  EXPECT_NE(found.back().find("record 777"), std::string::npos) << found.back();
  const auto place = std::find(stream.begin(), stream.end(), bad) - stream.begin();
  ASSERT_EQ(static_cast<std::ptrdiff_t>(found.size()), place + 1);
  EXPECT_TRUE(std::equal(stream.begin(), stream.begin() + place, found.begin()));

  // Rows know their shards: what is wrong with one names it.
  const Dataset parsed = records(4, 1).parse_example({fixed_len("x", {}, DType::kInt64)});
  Pipeline none = parsed.start({.threads = 2});
  const std::vector<std::string> first = rest_of(none);
  EXPECT_NE(first.back().find("0.tfrecord"), std::string::npos) << first.back();
  EXPECT_NE(first.back().find("record 0"), std::string::npos) << first.back();
}

}  // namespace
}  // namespace millrace::interleave_rounds_test
