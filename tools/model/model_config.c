/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "model/model_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/directory.h"
#include "io/json_write.h"
#include "model/layout_config.h"

/* Reads the config.json that lies beside a file, if one does. */
static int read_beside(const char *directory, json_t **config, struct error *error)
{
	size_t size = strlen(directory) + sizeof "/config.json";
	char *path = malloc(size);
	int code = EXIT_OK;

	if (path == NULL)
		return fail_memory(error);
	snprintf(path, size, "%s/config.json", directory);
	if (access(path, F_OK) == 0)
		code = json_read(path, CONFIG_BYTES_MAX, config, error);
	if (code == EXIT_OK && *config != NULL && !json_is_object(*config))
		code = fail(error, EXIT_INPUT, "%s: is not a JSON object", path);
	free(path);
	return code;
}

int model_config_copy(const struct model *model, json_t **config, struct error *error)
{
	*config = NULL;
	if (!model->is_directory) {
		int code = read_beside(model->directory, config, error);

		if (code != EXIT_OK) {
			json_decref(*config);
			*config = NULL;
		}
		return code;
	}
	if (model->config == NULL)
		return EXIT_OK;
	json_prepare();
	*config = json_deep_copy(model->config);
	if (*config != NULL && !json_out_of_memory())
		return EXIT_OK;
	json_decref(*config);
	*config = NULL;
	return fail_memory(error);
}

static int write_member(const char *directory, const char *name, const json_t *json, struct error *error)
{
	char *path = directory_member(directory, name);

	if (path == NULL)
		return fail_memory(error);
	unlink(path);
	int code = json_write(path, json, error);
	free(path);
	return code;
}

int model_config_write(const char *directory, const json_t *config, struct error *error)
{
	const char *name;

	json_prepare();
	json_t *second = layout_second_config(config, &name);
	int code = json_out_of_memory() ? fail_memory(error) : EXIT_OK;
	if (code == EXIT_OK)
		code = write_member(directory, CONFIG_FILE, config, error);
	if (code == EXIT_OK && name != NULL)
		code = write_member(directory, name, second, error);
	json_decref(second);
	return code;
}
