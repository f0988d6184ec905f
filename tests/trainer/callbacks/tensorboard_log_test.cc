#include "millrace/trainer/callbacks/tensorboard_log.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <variant>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/formats/storage/local.h"
#include "millrace/trainer/tensorboard/writer.h"
#include "tests/support/child_process.h"
#include "tests/support/places.h"
#include "tests/support/shard_driver.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"
#include "trainer/tensorboard/event.pb.h"

namespace millrace::tensorboard_log_test {
namespace {

using nlohmann::json;
using testing_models::RegressionSource;
using testing_models::ToyTraining;

// Keeps what the reports said.
class Reports final : public Callback {
 public:
  Reports(std::vector<TrainingReport>& reports, std::vector<EvaluationReport>& evaluations)
      : reports_(reports), evaluations_(evaluations) {}
  void report(const TrainingReport& report) override { reports_.push_back(report); }
  void evaluation_ends(const EvaluationReport& report) override { evaluations_.push_back(report); }

 private:
  std::vector<TrainingReport>& reports_;
  std::vector<EvaluationReport>& evaluations_;
};

// What TensorBoard's own reader finds in a folder, or why it cannot be asked.
std::variant<json, std::string> read_events(const std::string& folder) {
  const char* python = std::getenv("MILLRACE_PYTHON");
  const test::ChildResult read =
      test::run_child({"/usr/bin/env", python != nullptr ? python : "python3", test::kReadEvents, folder});
  if (read.exit_code == 77 || read.exit_code == 127) {
    return "no Python package tensorboard, whose reader was to read the events (MILLRACE_PYTHON names the Python that "
           "has it): " +
           read.err;
  }
  EXPECT_EQ(read.exit_code, 0) << read.err;
  return json::parse(read.out);
}

// The file of a run that goes on after step `from`; its path.
std::string write_four_steps(const std::string& folder, int64_t from) {
  TensorboardWriter writer(folder, from);
  for (int64_t step = from + 1; step <= from + 4; ++step) {
    writer.scalar(step, "train/loss", static_cast<double>(100 * from + step));
  }
  writer.flush();
  return writer.path();
}

// Readers take a start for the end of what earlier files hold of its step and later ones. `EventMultiplexer` of
// TensorBoard 2.21 does so from the second start of a folder on, its data server from the first.
TEST(TensorboardLog, EveryFileSaysWithWhichStepItStarts) {
  const test::TemporaryFolder folder;
  InlineExecutor executor;
  LocalStorage storage(executor);
  for (const int64_t passed_over : {0, 1}) {
    int64_t num_starts = 0;
    std::map<int64_t, std::vector<float>> shown;
    for (const int64_t from : {0, 2, 3}) {
      BufferPool pool;
      const test::ReadShard read =
          test::read_shard(storage, pool, write_four_steps(folder.path("events"), from), {}, /*stop_at_error=*/true);
      ASSERT_EQ(read.records.size(), 6U);
      for (size_t i = 0; i < read.records.size(); ++i) {
        tensorboard::Event event;
        ASSERT_TRUE(event.ParseFromString(read.records[i].payload));
        EXPECT_EQ(event.has_session_log(), i == 1);
        if (event.has_session_log()) {
          EXPECT_EQ(event.session_log().status(), tensorboard::SessionLog::START);
          EXPECT_EQ(event.step(), from + 1);
          if (num_starts++ >= passed_over) shown.erase(shown.lower_bound(event.step()), shown.end());
        }
        if (event.has_summary()) shown[event.step()].push_back(event.summary().value(0).simple_value());
      }
    }
    const std::map<int64_t, std::vector<float>> expected = {{1, {1}},   {2, {2}},   {3, {203}}, {4, {304}},
                                                            {5, {305}}, {6, {306}}, {7, {307}}};
    EXPECT_EQ(shown, expected) << passed_over;
  }
}

// TensorBoard reads the files of a folder in the order of their names.
TEST(TensorboardLog, ARunThatGoesOnComesAfterTheOneBeforeWhateverTheClockSays) {
  const test::TemporaryFolder folder;
  const std::string events = folder.path("events");
  std::string before = write_four_steps(events, 0);
  for (int64_t run = 1; run < 12; ++run) {  // within a second
    const std::string next = write_four_steps(events, run);
    EXPECT_LT(before, next);
    before = next;
  }
  // Written before the clock was set back by decades.
  const std::string ahead = events + "/events.out.tfevents.4102444800.host.1.0";
  std::filesystem::rename(before, ahead);
  // Names of others that say no time.
  for (const char* name :
       {"events.out.tfevents.", "events.out.tfevents.new", "events.out.tfevents.99999999999999999999",
        "events.out.tfevents.9999999999.host", "other.9000000000"}) {
    test::write_file(events + "/" + name, "");
  }
  const std::string after = write_four_steps(events, 12);
  EXPECT_LT(ahead, after);
  EXPECT_THAT(after, testing::StartsWith(events + "/events.out.tfevents.4102444801."));
}

TEST(TensorboardLog, ShowsStepsThatAreMadeAgainOnce) {
  const test::TemporaryFolder folder;
  for (const int64_t from : {0, 2}) write_four_steps(folder.path("events"), from);
  const auto read = read_events(folder.path("events"));
  if (const auto* reason = std::get_if<std::string>(&read)) GTEST_SKIP() << *reason;
  EXPECT_EQ(std::get<json>(read).at("scalars").at("train/loss"),
            json::parse("[[1, 1.0], [2, 2.0], [3, 203.0], [4, 204.0], [5, 205.0], [6, 206.0]]"));
}

TEST(TensorboardLog, IsReadByTensorBoardItself) {
  const test::TemporaryFolder folder;
  ToyTraining toy({.total_steps = 12,
                   .report_every = 4,
                   .evaluation = [] { return std::make_unique<RegressionSource>(3); },
                   .evaluate_every = 6});
  std::vector<TrainingReport> reports;
  std::vector<EvaluationReport> evaluations;
  toy.trainer.add_callback(std::make_unique<TensorboardLog>(TensorboardLogOptions{.folder = folder.path("events"),
                                                                                  .layout = &toy.model.layout(),
                                                                                  .weights = toy.trainer.weights(),
                                                                                  .histogram_every = 5}));
  toy.trainer.add_callback(std::make_unique<Reports>(reports, evaluations));
  RegressionSource source(100);
  toy.trainer.train(source);
  ASSERT_EQ(reports.size(), 4U);  // after steps 1, 4, 8 and 12

  const auto read = read_events(folder.path("events"));
  if (const auto* reason = std::get_if<std::string>(&read)) GTEST_SKIP() << *reason;
  const json& events = std::get<json>(read);
  const auto expect_scalar = [&](const std::string& tag, const auto& all, const auto& value) {
    SCOPED_TRACE(tag);
    ASSERT_TRUE(events.at("scalars").contains(tag)) << events;
    const json& found = events.at("scalars").at(tag);
    ASSERT_EQ(found.size(), all.size());
    for (size_t i = 0; i < all.size(); ++i) {
      EXPECT_EQ(found[i][0].get<int64_t>(), all[i].step);
      EXPECT_EQ(found[i][1].get<float>(), static_cast<float>(value(all[i])));
    }
  };
  expect_scalar("train/loss", reports, [](const TrainingReport& r) { return r.loss; });
  expect_scalar("train/learning_rate", reports, [](const TrainingReport& r) { return r.learning_rate; });
  expect_scalar("train/gradient_norm", reports, [](const TrainingReport& r) { return r.gradient_norm; });
  expect_scalar("time/step", reports, [](const TrainingReport& r) { return r.seconds / static_cast<double>(r.steps); });
  expect_scalar("time/backward", reports,
                [](const TrainingReport& r) { return r.phases.backward / static_cast<double>(r.steps); });
  expect_scalar("evaluation/loss", evaluations, [](const EvaluationReport& r) { return r.loss; });

  const json& histograms = events.at("histograms");
  EXPECT_EQ(histograms.at("time/steps").size(), 4U);
  const json& weights = histograms.at("weights/first.weight");
  ASSERT_EQ(weights.size(), 3U);  // after steps 5, 10 and at the end
  const Parameter& parameter = toy.model.layout().parameters()[0];
  const std::span<const float> values =
      toy.trainer.weights().subspan(static_cast<size_t>(parameter.offset), static_cast<size_t>(parameter.size));
  const json& last = weights[2];
  EXPECT_EQ(last[0], 12);
  EXPECT_EQ(last[1].get<double>(), *std::ranges::min_element(values));
  EXPECT_EQ(last[2].get<double>(), *std::ranges::max_element(values));
  EXPECT_EQ(last[3].get<size_t>(), values.size());
  const auto limits = last[6].get<std::vector<double>>();
  const auto counts = last[7].get<std::vector<double>>();
  ASSERT_EQ(limits.size(), counts.size());
  double below = 0;
  for (size_t i = 0; i < limits.size(); ++i) {
    below += counts[i];
    double expected = 0;
    for (const float value : values) expected += value <= limits[i] + 1e-9 ? 1 : 0;
    EXPECT_EQ(below, expected) << "up to " << limits[i];
  }
  EXPECT_EQ(below, static_cast<double>(values.size()));
}

TEST(TensorboardLog, EachRunWritesAFileOfItsOwn) {
  const test::TemporaryFolder folder;
  TensorboardLog one({.folder = folder.path("events")});
  TensorboardLog other({.folder = folder.path("events")});
  EXPECT_FALSE(std::filesystem::exists(folder.path("events"))) << "a training that cannot start leaves nothing";
  one.train_starts({});
  other.train_starts({});
  EXPECT_NE(one.path(), other.path());
  EXPECT_EQ(test::files_below(folder.path("events")).size(), 2U);
}

TEST(TensorboardLog, SaysWhatItCannotMake) {
  const test::TemporaryFolder folder;
  test::write_file(folder.path("file"), "");
  EXPECT_THAT(
      testing_models::thrown_by([&] { TensorboardLog({.folder = folder.path("file/events")}).train_starts({}); }),
      testing::HasSubstr("file"));
  EXPECT_THAT(
      testing_models::thrown_by([&] { TensorboardLog({.folder = folder.path("events"), .histogram_every = 0}); }),
      testing::HasSubstr("histogram_every is 0"));
}

}  // namespace
}  // namespace millrace::tensorboard_log_test
