#include "tests/examples/super_resolution/small_generator_run.h"

#include <filesystem>
#include <stdexcept>

#include <fmt/format.h>

#include "tests/support/encoded_pictures.h"
#include "tests/support/places.h"

namespace millrace::test {

SmallGeneratorRun::SmallGeneratorRun() {
  std::filesystem::create_directories(path("pictures"));
  for (unsigned i = 0; i < 4; ++i) {
    write_file(path(fmt::format("pictures/p{}.png", i)), written_png(drawn_picture(48, 64, 3, i + 1)));
  }
  const ChildResult result = run_child({kPrepareSuperResolution, "--pictures", path("pictures"), "--held-out", "p3",
                                        "--crop", "16", "--out", path("shards")});
  if (result.exit_code != 0) throw std::runtime_error(result.err);
}

std::vector<std::string> SmallGeneratorRun::training(const char* program, const std::string& out,
                                                     const std::vector<std::string>& more) const {
  return with_options(training_on({"--shards", path("shards")}, program, out), more);
}

std::vector<std::string> SmallGeneratorRun::training_on(const std::vector<std::string>& data, const char* program,
                                                        const std::string& out) const {
  return with_options({program, "--out",          path(out), "--blocks",  "1",  "--channels", "4", "--growth",
                       "4",     "--replicas",     "2",       "--threads", "2",  "--shuffle",  "8", "--global-batch",
                       "4",     "--report-every", "1",       "--steps",   "12", "--seed",     "7"},
                      data);
}

}  // namespace millrace::test
