#include <stdexcept>

#include "millrace/formats/storage/remote/remote_storage.h"

void use_remote() {
  millrace::RemoteStorage storage({.s3 = {.region = "eu-west-1"}});
  if (storage.glob("https://host/{0..3}").size() != 4) throw std::runtime_error("remote");
}
