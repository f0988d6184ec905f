#include "millrace/trainer/run/training_run.h"

#include <stdexcept>

void use_training_run() {
  millrace::RunOptions options;
  boost::program_options::options_description files("Files");
  boost::program_options::options_description training("Training");
  boost::program_options::options_description reports("Reports");
  millrace::add_run_options(options, "of start weights", files, training, reports);
  if (millrace::phases_of(options, 0).size() != 1) throw std::runtime_error("training_run");
}
