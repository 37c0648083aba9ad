/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * Private to the urxe command: tables of what processes answer. Answers are tamed, and may lack
 * anything.
 */
#ifndef URXE_TOOL_TABLE_H
#define URXE_TOOL_TABLE_H

#include <stdbool.h>
#include <stdio.h>

#include <json-c/json.h>

/* ---- table.c: urxe status; of answers to URXE_STATUS_ALL ---- */

/** tool_table_summary - a row for each device of each process in an array. */
void tool_table_summary(FILE *out, struct json_object *processes);
/** tool_table_process - one process: its devices with counters that are not 0, CQs, QPs. */
void tool_table_process(FILE *out, struct json_object *process);
/** tool_table_connections - a row for each id of each process in an array; of answers to
 * URXE_STATUS_CM, too. */
void tool_table_connections(FILE *out, struct json_object *processes);

/* ---- rates.c: urxe stat; of answers to URXE_STATUS_STAT ---- */

/** What a device of a process did in a second. */
struct tool_rates {
	double rx_packets, tx_packets, rx_bytes, tx_bytes;
	double retransmits, naks, drops;
};

/**
 * tool_rates - between two answers about a device; false: there is no time between them, or they
 * are not of the same life of a process
 */
bool tool_rates(struct tool_rates *r, struct json_object *before, struct json_object *after);
/** tool_rates_title, tool_rates_row - a line of text. */
void tool_rates_title(FILE *out);
void tool_rates_row(FILE *out, int pid, const char *command, const char *device,
		    const struct tool_rates *r);
/** tool_rates_json - the same as an object. */
struct json_object *tool_rates_json(int pid, const char *command, const char *device,
				    const struct tool_rates *r);

#endif
