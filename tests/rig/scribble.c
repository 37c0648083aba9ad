/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * A peer that shares the memory of a frame, at its worst: all but the payload is overwritten as
 * soon as the packet has been decoded. The linker puts this before urxe_decode() in every program
 * that has a pair (meson.build: --wrap), so no test there sees what headers said later on.
 */
#include <string.h>

#include "decode.h"

enum urxe_stat __real_urxe_decode(struct urxe_packet *frame, struct urxe_decoded *pkt);
enum urxe_stat __wrap_urxe_decode(struct urxe_packet *frame, struct urxe_decoded *pkt);

enum urxe_stat __wrap_urxe_decode(struct urxe_packet *frame, struct urxe_decoded *pkt)
{
	enum urxe_stat bad = __real_urxe_decode(frame, pkt);
	const uint8_t *from = frame->l3, *end = frame->bth + frame->len;
	const uint8_t *payload = bad == URXE_STAT_NONE ? pkt->payload : end;
	uint32_t length = bad == URXE_STAT_NONE ? pkt->length : 0;

	memset((uint8_t *)(uintptr_t)from, 0xa5, (size_t)(payload - from));
	memset((uint8_t *)(uintptr_t)(payload + length), 0xa5, (size_t)(end - payload - length));
	return bad;
}
