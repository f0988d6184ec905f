#include "tests/examples/text_to_text/small_run.h"

#include <stdexcept>

#include "tests/examples/text_to_text/questions.h"
#include "tests/support/places.h"

namespace millrace::test {

SmallRun::SmallRun(int num_rows) {
  write_file(path("questions.csv"), questions_csv(num_rows));
  const ChildResult prepared = run_child({kPrepareTextToText, "--csv", path("questions.csv"), "--out", path("rows"),
                                          "--vocab-size", "200", "--max-length", "48", "--validation-share", "0.2"});
  if (prepared.exit_code != 0) throw std::runtime_error(prepared.err);
}

std::vector<std::string> SmallRun::training(const std::string& out, const std::vector<std::string>& more) const {
  return with_options({kTrainTextToText,
                       "--out",
                       path(out),
                       "--rows",
                       path("rows"),
                       "--layers",
                       "1",
                       "--d-model",
                       "16",
                       "--d-ff",
                       "32",
                       "--heads",
                       "2",
                       "--d-kv",
                       "8",
                       "--steps",
                       "20",
                       "--warmup-steps",
                       "3",
                       "--learning-rate",
                       "0.01",
                       "--report-every",
                       "1",
                       "--threads",
                       "2"},
                      more);
}

std::vector<std::string> SmallRun::prediction(const std::string& model, const std::vector<std::string>& more) const {
  std::vector<std::string> arguments = {kPredictTextToText, "--model", path(model)};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

}  // namespace millrace::test
