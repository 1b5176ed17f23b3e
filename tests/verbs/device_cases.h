// Cases of single messages between Soft-RoCE, the user-space device, and senders that no correct device would be.
#pragma once

namespace jaxina::guest {

void interoperate();
void wrong_keys();
void wrong_icrc();
void recover();
void refused_devices();

}  // namespace jaxina::guest
