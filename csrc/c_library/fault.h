// What goes wrong in the C library, with the code that its caller gets.
#pragma once

#include <stdexcept>
#include <string>

#include "../../include/calib8.h"

namespace calib8::c_library {

class Fault : public std::runtime_error {
 public:
  Fault(calib8_code code, const std::string& text) : std::runtime_error(text), code_(code) {}
  calib8_code code() const { return code_; }

 private:
  calib8_code code_;
};

}  // namespace calib8::c_library
