#include "millrace/trainer/callbacks/progress_bar.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "millrace/formats/error.h"

namespace millrace::progress_bar_test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;
using testing::StartsWith;

// A stream into memory.
class Screen {
 public:
  Screen() : stream_(::open_memstream(&text_, &size_)) {}
  ~Screen() {
    std::fclose(stream_);
    std::free(text_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  std::FILE* stream() { return stream_; }
  std::string text() {
    std::fflush(stream_);
    return {text_, size_};
  }

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  std::FILE* stream_;
};

TrainingReport a_report() {
  return {.step = 20,
          .total_steps = 250,
          .epoch = 1,
          .loss = 6.54321,
          .learning_rate = 0.000123456,
          .tokens = 1000,
          .rows_per_s = 512,
          .tokens_per_s = 1234567.4,
          .input_wait_share = 0.013,
          .limiting_stage = "2:map"};
}

TEST(ProgressBar, ElsewhereThanOnATerminalPrintsALineForEachReport) {
  Screen screen;
  ProgressBar bar(screen.stream(), false);
  bar.train_starts(
      {.total_steps = 250, .num_parameters = 6234567, .num_trained = 6234567, .replicas = 8, .accumulate = 4});
  const StepReport step{.updated = true};
  bar.step_ends({.step = step, .since_report = a_report()});
  bar.report(a_report());
  bar.evaluation_ends({.step = 20, .loss = 6.4, .rows = 12345, .seconds = 1.23});
  bar.train_ends({.step = 250, .whole = {.seconds = 83.2, .rows_per_s = 512, .input_wait_share = 0.0071}});
  EXPECT_EQ(screen.text(),
            "training 6,234,567 parameters on 8 replicas, 250 steps of 4 batches\n"
            "step 20/250  epoch 1  loss 6.5432  lr 0.000123  1,234,567 tokens/s  waiting for input 1.3%\n"
            "evaluation at step 20: loss 6.4000 over 12,345 rows in 1.2 s\n"
            "done after 250 steps in 1:23: 512 rows/s, waiting for input 0.71% of the time\n");
}

TEST(ProgressBar, SaysThatTheDataEndedBeforeTheLastStep) {
  for (const int64_t total_steps : {0, 2, 3}) {
    Screen screen;
    ProgressBar bar(screen.stream(), false);
    bar.train_ends({.step = 2, .data_ended = true, .whole = {.total_steps = total_steps, .rows_per_s = 8}});
    EXPECT_THAT(screen.text(), testing::StartsWith(total_steps == 3 ? "the data ended after 2 of 3 steps in 0:00: "
                                                                    : "done after 2 steps in 0:00: "));
  }
}

TEST(ProgressBar, SaysHowManyParametersAreTrainedWhenSomeAreFrozen) {
  Screen screen;
  ProgressBar bar(screen.stream(), false);
  bar.train_starts({.num_parameters = 37952, .num_trained = 1234, .replicas = 8});
  EXPECT_EQ(screen.text(), "training 1,234 of 37,952 parameters on 8 replicas\n");
}

TEST(ProgressBar, SaysInALineWhereTheTimeOfEachReportWent) {
  TrainingReport report = a_report();
  report.steps = 4;
  report.seconds = 9;
  report.callback_seconds = 1;
  report.input_wait_share = 1.0 / 9;
  report.phases = {.forward = 2.5, .backward = 5, .reduce = 0.2, .optimizer = 0.3};
  for (const bool terminal : {false, true}) {
    Screen screen;
    ProgressBar bar(screen.stream(), terminal);
    bar.report(report);
    EXPECT_THAT(screen.text(), HasSubstr("  step 20: 2.5 s a step: waiting for input 10.0%, forward 25.0%, backward "
                                         "50.0%, reduce 2.0%, optimizer 3.0%, callbacks 10.0%\n"));
  }
}

TEST(ProgressBar, NamesTheStageThatLimitsWhenWaitingIsWorthIt) {
  Screen screen;
  ProgressBar bar(screen.stream(), false);
  TrainingReport report = a_report();
  report.input_wait_share = 0.35;
  bar.report(report);
  EXPECT_THAT(screen.text(), EndsWith("waiting for input 35.0% (limited by 2:map)\n"));
  bar.train_ends({.step = 250, .stopped = true, .whole = report});
  EXPECT_THAT(screen.text(), HasSubstr("stopped after 250 steps"));
  EXPECT_THAT(screen.text(), EndsWith("waiting for input 35.00% of the time (limited by 2:map)\n"));
  // A source that keeps up by its own account blames nobody.
  report.limiting_stage = "consumer";
  bar.report(report);
  EXPECT_THAT(screen.text(), EndsWith("waiting for input 35.0%\n"));
}

TEST(ProgressBar, SaysWhichUpdateWasSkippedAndCountsThem) {
  Screen screen;
  ProgressBar bar(screen.stream(), false);
  const StepReport step{.updated = false, .skip_reason = "step 7 (batch 6): no number; the update was skipped"};
  TrainingReport report = a_report();
  report.skipped_updates = 1;
  bar.step_ends({.step = step, .since_report = report});
  bar.report(report);
  EXPECT_THAT(screen.text(), StartsWith("step 7 (batch 6): no number; the update was skipped\n"));
  EXPECT_THAT(screen.text(), EndsWith("  1 updates skipped\n"));
}

TEST(ProgressBar, RedrawsOneLineOnATerminal) {
  Screen screen;
  {
    ProgressBar bar(screen.stream(), true);
    bar.train_starts({.total_steps = 250});
    const std::string head = screen.text();
    bar.report(a_report());
    std::string text = screen.text().substr(head.size());
    EXPECT_THAT(text, MatchesRegex("\r\\[#-------------------\\] step 20/250 .*  [0-9]+:[0-9][0-9] left"));
    const size_t width = text.size() - 1;
    TrainingReport shorter = a_report();
    shorter.tokens_per_s = 1;
    shorter.step = 125;
    bar.report(shorter);
    text = screen.text().substr(head.size() + 1 + width);
    EXPECT_THAT(text, StartsWith("\r[##########----------] step 125/250"));
    EXPECT_EQ(text.size() - 1, width) << "blanks cover the rest of the longer line";
    bar.evaluation_ends({.loss = 1});
    const size_t shorter_width = text.find_last_not_of(' ');
    EXPECT_LT(shorter_width, width);
    EXPECT_THAT(screen.text(), HasSubstr(" \r" + std::string(shorter_width, ' ') + "\revaluation"));
    bar.report(a_report());
    EXPECT_THAT(screen.text(), Not(EndsWith("\n")));
  }
  EXPECT_THAT(screen.text(), EndsWith("left\n")) << "whatever is printed next begins a line";
}

TEST(ProgressBar, KeepsWithinTheWidthOfTheTerminal) {
  const int master = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (master < 0) GTEST_SKIP() << "this system has no pseudo terminals: " << std::strerror(errno);
  ASSERT_EQ(::grantpt(master), 0);
  ASSERT_EQ(::unlockpt(master), 0);
  winsize size = {};
  size.ws_col = 40;
  size.ws_row = 10;
  ASSERT_EQ(::ioctl(master, TIOCSWINSZ, &size), 0);
  std::FILE* terminal = std::fopen(::ptsname(master), "w");
  ASSERT_NE(terminal, nullptr);
  {
    ProgressBar bar(terminal);  // finds out by itself that this is a terminal
    bar.report(a_report());
  }
  std::string line;  // comes in any number of parts
  while (line.find('\n') == std::string::npos) {
    char part[100];
    const ssize_t count = ::read(master, part, sizeof part);
    ASSERT_GT(count, 0);
    line.append(part, static_cast<size_t>(count));
  }
  EXPECT_THAT(line, StartsWith("\r[#-------------------] step 20/250"));
  EXPECT_EQ(line.find_first_of("\r\n", 1), 40U) << "39 characters: the last column stays free";
  std::fclose(terminal);
  ::close(master);
}

TEST(ValueText, KeepsFourDigitsOfWhatIsSmall) {
  EXPECT_EQ(value_text(6.54321), "6.5432");
  EXPECT_EQ(value_text(0.01), "0.0100");
  EXPECT_EQ(value_text(0.00567891), "0.005679");
  EXPECT_EQ(value_text(-0.0000123), "-1.23e-05");
  EXPECT_EQ(value_text(0), "0.0000");
  EXPECT_EQ(value_text(std::numeric_limits<double>::quiet_NaN()), "-");
}

}  // namespace
}  // namespace millrace::progress_bar_test
