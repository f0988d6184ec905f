#include "millrace/trainer/callbacks/step_trace.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "millrace/pipeline/worker_limit.h"
#include "tests/support/gathering.h"
#include "tests/support/temporary_folder.h"
#include "tests/trainer/toy_training.h"

namespace millrace::step_trace_test {
namespace {

using nlohmann::json;
using test::Gathering;
using testing_models::RegressionSource;
using testing_models::ToyTraining;

struct Span {
  std::string name;
  int row = 0;
  double begin = 0;
  double end = 0;
};

// `missing`: what a file lacks whose training still runs.
std::vector<Span> spans_of(const std::string& file, const std::string& missing = "") {
  std::vector<Span> spans;
  for (const json& event : json::parse(test::read_file(file) + missing)) {
    if (event.at("ph") != "X") continue;
    const double begin = event.at("ts");
    spans.push_back({event.at("name"), event.at("tid"), begin, begin + event.at("dur").get<double>()});
  }
  return spans;
}

// The spans whose names start with `name`, in order of their begin.
std::vector<Span> named(const std::vector<Span>& spans, const std::string& name) {
  std::vector<Span> found;
  std::ranges::copy_if(spans, std::back_inserter(found), [&](const Span& span) { return span.name.starts_with(name); });
  std::ranges::sort(found, {}, &Span::begin);
  return found;
}

constexpr double kRounding = 0.01;  // microseconds: times have three digits

TEST(StepTrace, ShowsWhatEachThreadDidInEachStep) {
  const test::TemporaryFolder folder;
  const WorkerLimit limit(4);
  ToyTraining toy({.step = {.threads = 4}, .total_steps = 5});
  std::deque<Gathering> gatherings;  // one for each step, since each must show all threads
  for (int step = 0; step < 5; ++step) gatherings.emplace_back(4);
  toy.model.before_step = [&](const ReplicaContext& context) { gatherings[static_cast<size_t>(context.batch)].pass(); };
  // The last replica ends late, so that buckets are complete before its backward pass has ended.
  toy.model.before_last_gradients = [](const ReplicaContext&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  };
  toy.trainer.add_callback(
      std::make_unique<StepTrace>(StepTraceOptions{.path = folder.path("trace.json"), .first_step = 1, .steps = 3}));
  RegressionSource source(100);
  toy.trainer.train(source);

  const std::vector<Span> spans = spans_of(folder.path("trace.json"));
  const std::vector<Span> steps = named(spans, "step ");
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].name, "step 2");
  EXPECT_EQ(steps[2].name, "step 4");
  EXPECT_EQ(named(spans, "waiting for input").size(), 3U);
  EXPECT_GE(named(spans, "callbacks").size(), 3U);
  for (const Span& step : steps) {
    std::set<int> rows;
    std::vector<Span> inside;
    for (const Span& span : spans) {
      if (span.row > 0 && span.begin >= step.begin - kRounding && span.end <= step.end + kRounding) {
        inside.push_back(span);
      }
    }
    const auto forward = named(inside, "forward of replica ");
    const auto backward = named(inside, "backward of replica ");
    ASSERT_EQ(forward.size(), 8U);
    ASSERT_EQ(backward.size(), 8U);
    double backward_end = 0;
    for (const Span& pass : backward) {
      rows.insert(pass.row);
      backward_end = std::max(backward_end, pass.end);
      const auto own = std::ranges::find(forward, "forward" + pass.name.substr(8), &Span::name);
      ASSERT_NE(own, forward.end());
      EXPECT_EQ(own->row, pass.row);
      EXPECT_NEAR(own->end, pass.begin, kRounding);
    }
    const auto reductions = named(inside, "reduce bucket ");
    EXPECT_EQ(reductions.size(), toy.model.layout().buckets().size());
    const auto early = std::ranges::count_if(reductions, [&](const Span& span) { return span.end < backward_end; });
    EXPECT_GE(early, 2) << "buckets are reduced before backward ends";
    for (const Span& reduction : reductions) {
      EXPECT_TRUE(std::ranges::any_of(backward,
                                      [&](const Span& pass) {
                                        return pass.row == reduction.row && pass.begin <= reduction.begin + kRounding &&
                                               pass.end >= reduction.end - kRounding;
                                      }))
          << reduction.name << " lies in the backward pass of the thread that did it";
    }
    const auto decision = named(inside, "decision");
    ASSERT_EQ(decision.size(), 1U);
    EXPECT_GE(decision[0].begin, backward_end - kRounding);
    const auto updates = named(inside, "optimizer of bucket ");
    EXPECT_EQ(updates.size(), reductions.size());
    for (const Span& update : updates) EXPECT_GE(update.begin, decision[0].end - kRounding);
    EXPECT_GE(rows.size(), 4U);
  }
}

TEST(StepTrace, ShowsEachBatchOfAStepAndItsReductions) {
  const test::TemporaryFolder folder;
  ToyTraining toy({.step = {.threads = 2}, .accumulate = 3, .total_steps = 2});
  toy.model.before_last_gradients = [](const ReplicaContext&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  };
  toy.trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = folder.path("trace.json")}));
  RegressionSource source(100);
  toy.trainer.train(source);

  const std::vector<Span> spans = spans_of(folder.path("trace.json"));
  ASSERT_EQ(named(spans, "step ").size(), 2U);
  const auto within = [](const Span& outer) {
    return [&outer](const Span& span) {
      return span.begin >= outer.begin - kRounding && span.end <= outer.end + kRounding;
    };
  };
  for (const Span& step : named(spans, "step ")) {
    std::vector<Span> in_step;
    std::ranges::copy_if(spans, std::back_inserter(in_step), within(step));
    EXPECT_EQ(named(in_step, "waiting for input").size(), 2U) << "the first wait is before the step";
    EXPECT_EQ(named(in_step, "optimizer of bucket ").size(), toy.model.layout().buckets().size());
    const std::vector<Span> batches = named(in_step, "batch ");
    ASSERT_EQ(batches.size(), 3U);
    for (size_t i = 0; i < batches.size(); ++i) {
      EXPECT_EQ(batches[i].name, "batch " + std::to_string(i) + " of " + step.name);
      std::vector<Span> inside;
      std::ranges::copy_if(in_step, std::back_inserter(inside), within(batches[i]));
      EXPECT_EQ(named(inside, "forward of replica ").size(), 8U);
      const auto backward = named(inside, "backward of replica ");
      ASSERT_EQ(backward.size(), 8U);
      const double backward_end = std::ranges::max(backward, {}, &Span::end).end;
      const auto reductions = named(inside, "reduce bucket ");
      EXPECT_EQ(reductions.size(), toy.model.layout().buckets().size());
      EXPECT_GE(std::ranges::count_if(reductions, [&](const Span& span) { return span.end < backward_end; }), 2)
          << "buckets are reduced before backward ends";
    }
  }
}

TEST(StepTrace, CanBeReadWhileTheTrainingRunsAndSaysWhatItCannotMake) {
  const test::TemporaryFolder folder;
  class Reader final : public Callback {
   public:
    explicit Reader(std::string path) : path_(std::move(path)) {}
    void step_ends(const StepEnd& end) override {
      EXPECT_EQ(named(spans_of(path_, "]"), "step ").size(), static_cast<size_t>(end.since_report.step));
    }

   private:
    std::string path_;
  };
  ToyTraining toy({.total_steps = 3});
  toy.trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = folder.path("trace.json")}));
  toy.trainer.add_callback(std::make_unique<Reader>(folder.path("trace.json")));
  RegressionSource source(100);
  toy.trainer.train(source);
  EXPECT_EQ(named(spans_of(folder.path("trace.json")), "step ").size(), 3U);
  EXPECT_THAT(testing_models::thrown_by([&] { StepTrace({.path = folder.path("none/trace.json")}); }),
              testing::HasSubstr("none/trace.json"));
  EXPECT_THAT(testing_models::thrown_by([&] { StepTrace({.path = folder.path("t"), .steps = -1}); }),
              testing::HasSubstr("a trace of -1 steps"));
}

TEST(StepTrace, IsWholeHoweverTheTrainingEnds) {
  const test::TemporaryFolder folder;
  const std::string path = folder.path("trace.json");
  const auto steps = [&] { return named(spans_of(path), "step ").size(); };
  {
    // After its last step, while the training goes on.
    ToyTraining toy({.total_steps = 5});
    toy.trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = path, .first_step = 1, .steps = 2}));
    class Reader final : public Callback {
     public:
      explicit Reader(const decltype(steps)& read) : read_(read) {}
      void step_ends(const StepEnd& end) override {
        if (end.since_report.step < 3) return;
        EXPECT_EQ(read_(), 2U);
      }

     private:
      const decltype(steps)& read_;
    };
    toy.trainer.add_callback(std::make_unique<Reader>(steps));
    RegressionSource source(100);
    toy.trainer.train(source);
    EXPECT_EQ(steps(), 2U);
  }
  {
    ToyTraining toy({.total_steps = 5});
    toy.trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = path}));
    RegressionSource source(100);
    toy.trainer.train(source, [&] { return toy.trainer.step() == 2; });
    EXPECT_EQ(steps(), 2U) << "stopped";
    toy.trainer.train(source);
    EXPECT_EQ(steps(), 2U) << "a second training is not drawn";
  }
  {
    ToyTraining toy({.total_steps = 5});
    toy.trainer.add_callback(std::make_unique<StepTrace>(StepTraceOptions{.path = path}));
    toy.model.before_step = [&](const ReplicaContext&) {
      if (toy.trainer.step() == 3) throw std::runtime_error("broken");
    };
    RegressionSource source(100);
    EXPECT_THAT(testing_models::thrown_by([&] { toy.trainer.train(source); }), testing::HasSubstr("broken"));
    toy.model.before_step = nullptr;
    toy.trainer.train(source);
    EXPECT_EQ(steps(), 3U) << "ended by an error, and another one after it";
  }
  { const StepTrace never_started({.path = path}); }
  EXPECT_EQ(steps(), 0U);
}

}  // namespace
}  // namespace millrace::step_trace_test
