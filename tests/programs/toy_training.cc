// A small training that tests start, interrupt and kill.
#include "tests/trainer/toy_training.h"

#include <chrono>
#include <clocale>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "millrace/trainer/stop_signals.h"
#include "tests/programs/file_faults.h"

namespace {

using namespace millrace;
using test::FileFault;

constexpr const char* kUsage =
    "usage: toy_training FOLDER STEPS CHECKPOINT_EVERY [from=STEP] [hang=STEP] [best=N] [kill=CALL | full=CALL]\n"
    "Trains the Regression model up to STEPS steps, goes on from the newest checkpoint in FOLDER or that of STEP, and\n"
    "says after each step 'step N' and after each checkpoint 'checkpoint N'. In step `hang` it says so and sleeps.\n"
    "With `best` it evaluates after each step and keeps the N best models in FOLDER/best. What it writes for its "
    "first\n"
    "checkpoint, models included, meets a fault at the file call of number CALL.\n";

void say(const char* word, int64_t number) {
  std::printf("%s %lld\n", word, static_cast<long long>(number));
  std::fflush(stdout);
}

class Narrator final : public Callback {
 public:
  void step_ends(const StepEnd& end) override { say("step", end.since_report.step); }
  void checkpoint_written(const std::string& path) override { say("checkpoint", read_progress(path).step); }
};

// Puts a fault into what comes between a step and the news of its checkpoint: the writing of it.
class Saboteur final : public Callback {
 public:
  Saboteur(FileFault fault, int64_t call) : fault_(fault), call_(call) {}
  void step_ends(const StepEnd&) override {
    if (!done_) test::arm_file_fault(fault_, call_);
  }
  void checkpoint_written(const std::string&) override {
    done_ = true;
    test::disarm_file_fault();
  }

 private:
  FileFault fault_;
  int64_t call_;
  bool done_ = false;
};

}  // namespace

int main(int argc, char** argv) {
  std::setlocale(LC_ALL, "");  // as programs do that speak their user's language
  try {
    std::map<std::string, int64_t> extras;
    for (int i = 4; i < argc; ++i) {
      const std::string text = argv[i];
      extras[text.substr(0, text.find('='))] = std::stoll(text.substr(text.find('=') + 1));
    }
    for (const auto& [name, value] : extras) {
      if (name != "from" && name != "best" && name != "hang" && name != "kill" && name != "full") argc = 0;
    }
    if (argc < 4) {
      std::fputs(kUsage, stderr);
      return 2;
    }
    const std::string folder = argv[1];
    StopSignals signals;
    TrainerOptions options;
    options.step.threads = 1;
    options.total_steps = std::stoll(argv[2]);
    options.checkpoint_folder = folder;
    options.checkpoints.keep_last = 2;
    options.checkpoint_every = std::stoll(argv[3]);
    if (extras.count("best") > 0) testing_models::keep_best(options, folder + "/best", extras["best"]);
    testing_models::LongTraining toy(options);
    if (extras.count("hang") > 0) {
      toy.model.before_step = [hang = extras["hang"]](const ReplicaContext& context) {
        if (context.batch + 1 != hang || context.replica != 0) return;
        say("hanging in step", hang);
        std::this_thread::sleep_for(std::chrono::minutes(10));
      };
    }
    toy.trainer.add_callback(std::make_unique<Narrator>());
    if (extras.count("kill") > 0) {
      toy.trainer.add_callback(std::make_unique<Saboteur>(FileFault::kKill, extras["kill"]));
    }
    if (extras.count("full") > 0) {
      toy.trainer.add_callback(std::make_unique<Saboteur>(FileFault::kDiskFull, extras["full"]));
    }
    for (const std::string& checkpoint : CheckpointFolder(folder, {}).paths()) {
      if (extras.count("from") == 0 || read_progress(checkpoint).step == extras["from"]) {
        toy.trainer.resume(checkpoint);
      }
    }
    testing_models::RegressionSource source(testing_models::kLongTrainingSteps, toy.trainer.micro_batches());
    toy.trainer.train(source, [&] { return signals.requested(); });
    return signals.exit_code();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "toy_training: %s\n", error.what());
    return 1;
  }
}
