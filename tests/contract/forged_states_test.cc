// States of every operator with numbers that no run counts to: a digest does not keep somebody from writing them.

#include <array>
#include <functional>

#include <gtest/gtest.h>

#include "millrace/pipeline/pipeline_state.h"
#include "pipeline/pipeline_state.pb.h"
#include "tests/contract/graph.h"
#include "tests/contract/save_points.h"
#include "tests/contract/state_bytes.h"

namespace millrace::test::forged_states_test {
namespace {

constexpr std::array<int64_t, 3> kForged{int64_t{1} << 40, INT64_MIN, INT64_MAX};
// More than any of the streams here has, with what is read ahead of it.
constexpr int64_t kMostRows = 1 << 18;
constexpr size_t kMostElements = 60;

// Every number of a place, those of its inputs included, is given to `function` in turn.
void for_each_number(state::Cursor& place, const std::function<void(const std::function<void(int64_t)>&)>& function) {
  const int64_t skip = place.skip();
  function([&](int64_t value) { place.set_skip(value); });
  place.set_skip(skip);
  if (!place.has_state()) return;
  state::Stage& stage = *place.mutable_state();
  for (int i = 0; i < stage.numbers_size(); ++i) {
    const int64_t number = stage.numbers(i);
    function([&](int64_t value) { stage.set_numbers(i, value); });
    stage.set_numbers(i, number);
  }
  for (state::Cursor& input : *stage.mutable_inputs()) for_each_number(input, function);
}

// How a run ends that goes on from a state: `end`, `many` when it goes on beyond what is looked at, or the error's
// code.
std::string outcome(const Dataset& dataset, const std::string& bytes) {
  std::string end = "many";
  try {
    Pipeline pipeline = resume(dataset, {.threads = 2}, bytes);
    for (size_t i = 0; i < kMostElements && end == "many"; ++i) {
      if (!pipeline.next()) end = "end";
    }
    for (const StageReport& stage : pipeline.stats().stages) {
      EXPECT_LE(stage.rows, kMostRows) << stage.name << " moved rows to come to a place that is not there";
    }
  } catch (const PipelineError& failed) {
    end = to_string(failed.error().code);
  } catch (const ErrorException& failed) {
    end = to_string(failed.error().code);
  }
  return end;
}

// An error of records or elements, and none of the pipeline.
bool is_of_data(const std::string& end) {
  for (const ErrorCode code : {ErrorCode::kPayloadCrc, ErrorCode::kLengthCrc, ErrorCode::kTruncated, ErrorCode::kParse,
                               ErrorCode::kMissingFeature, ErrorCode::kWrongShape}) {
    if (end == to_string(code)) return true;
  }
  return false;
}

void expect_forged_states_end(const TwinDataset& twin) {
  Pipeline pipeline = twin.dataset().start({.threads = 2});
  std::string error;
  try {
    for (int i = 0; i < 5 && pipeline.next(); ++i) continue;
  } catch (const PipelineError& failed) {
    error = to_string(failed.error().code);
  }
  const std::string bytes = save(pipeline);
  const std::string honest = outcome(twin.dataset(), bytes);
  state::State content = content_of_state(bytes);
  size_t number = 0;
  for_each_number(*content.mutable_place(), [&](const auto& set) {
    set(kForged[number++ % kForged.size()]);
    const std::string forged = outcome(twin.dataset(), state_with_content(content));
    // From another place on, another one of the data's errors may come first.
    EXPECT_TRUE(forged == "state" || forged == "end" || forged == honest || (is_of_data(honest) && is_of_data(forged)))
        << "ends with " << forged << " and else with " << honest << ":\n"
        << twin.code() << content.DebugString();
  });
}

class ForgedStatesOfOperators : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ForgedStatesOfOperators, testing::Range<size_t>(0, operator_lines().size()),
                         [](const auto& line) {
                           return std::string(operator_lines()[line.param].name) + "_" + std::to_string(line.param);
                         });

TEST_P(ForgedStatesOfOperators, AreRefusedOrEndWithoutReadingToPlacesThatAreNotThere) {
  const std::array<TwinDataset (*)(), 5> inputs{
      [] { return TwinDataset::range(0, 23, 1); },
      [] { return TwinDataset::rows(19).ragged_batch(3, false); },
      [] {
        return TwinDataset::tfrecord({"plain-0", "gzip-1", "zstd-3"}, {.cycle_length = 2, .block_length = 2});
      },
      [] {
        return TwinDataset::tfrecord({"plain-0", "plain-4"}, {.cycle_length = 2})
            .parse_example({"tokens", "mask", "weight_or_half", "name", "id"});
      },
      [] { return TwinDataset::range(0, 11, 1).repeat(-1); },
  };
  const OperatorLine& line = operator_lines()[GetParam()];
  int num_tried = 0;
  for (const auto make : inputs) {
    const TwinDataset input = make();
    if (!line.fits(input)) continue;
    Picks picks(1, GetParam());
    expect_forged_states_end(line.add(input, picks));
    ++num_tried;
  }
  EXPECT_GT(num_tried, 0);
}

class ForgedStatesOfSources : public testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(, ForgedStatesOfSources, testing::Range<size_t>(0, source_lines().size()),
                         [](const auto& line) {
                           return std::string(source_lines()[line.param].name) + "_" + std::to_string(line.param);
                         });

TEST_P(ForgedStatesOfSources, AreRefusedOrEndWithoutReadingToPlacesThatAreNotThere) {
  for (uint64_t seed = 1; seed <= 2; ++seed) {
    Picks picks(seed, GetParam());
    expect_forged_states_end(source_lines()[GetParam()].make(picks, {}));
  }
}

}  // namespace
}  // namespace millrace::test::forged_states_test
